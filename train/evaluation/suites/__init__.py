"""Suites: the published sets of problems on which models are evaluated, from rows to exercises.

Begin with suite (what every suite of rows has, and what a caller asks of it) and registry (the suites by the names that
users type, and which of them can read a file). The other modules are the suites: code (HumanEval, HumanEval+, MBPP and
MBPP+), livecodebench, codeforces, mathematics (AIME and MATH-500), cruxeval, and dataset for what curate built.
"""
