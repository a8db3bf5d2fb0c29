"""Judges of completions. A judge is a value with an exercise's expected result and a rule.

Begin with judge.py: the interface, and the judge by a suite of tests in the sandbox. call_judge.py calls the function
in a completion and compares return values by EvalPlus's rules; cruxeval_judges.py judges predictions of outputs and
inputs; math_judge.py judges final answers. call_run.py runs programs on inputs in the sandbox, through
sandbox_runner.py. extraction.py has the rules that extract programs from completions, the longest of them in
evalplus_extraction.py; time_limits.py decides when a time limit counts.
"""
