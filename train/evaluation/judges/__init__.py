"""Judges of completions. A judge holds an exercise's expected result.

Begin with judge.py: the interface, and the judge by a suite of tests in the sandbox. call_judge.py calls the function
in a completion and compares return values by EvalPlus's rules; cruxeval_judges.py judges predicted outputs and inputs;
math_judge.py judges final answers. call_run.py calls functions in the sandbox, through sandbox_runner.py. extraction.py
and evalplus_extraction.py have the rules that extract programs; time_limits.py confirms time limits.
"""
