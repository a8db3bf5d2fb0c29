"""Judges: how the answer to an exercise is judged. A judge is a value: what an exercise expects, and by which rule.

Begin with judge: what every judge offers and returns, and the judge by a suite of tests in the sandbox. call_judge
calls the function in an answer and compares what it returns by EvalPlus's rules; cruxeval_judges judges predictions of
outputs and inputs; math_judge judges final answers. call_run runs programs on inputs in the sandbox, by sandbox_runner,
the program that is there with the answer. extraction has the rules that find the program in an answer, the longest of
them in evalplus_extraction; time_limits decides when a time limit counts.
"""
