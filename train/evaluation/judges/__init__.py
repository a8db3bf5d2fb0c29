"""Judges of completions. A judge holds an exercise's expected result.

judge             the interface, and the judge that runs a test suite in the sandbox
call_judge        calls a completion's function, and compares return values by EvalPlus's rules
cruxeval_judges   judge predicted outputs and inputs
math_judge        judges final answers
call_run          calls functions in the sandbox, through sandbox_runner
extraction, evalplus_extraction   rules that extract programs
time_limits       confirms time limits
"""
