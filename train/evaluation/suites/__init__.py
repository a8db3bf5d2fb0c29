"""Suites: the published sets of problems on which models are evaluated, from rows to exercises.

Begin with suite.py: what every suite of rows has, what a caller asks of it, and an exercise. ../exercises.py has the
suites by the names that users type. They are code.py (HumanEval, HumanEval+, MBPP and MBPP+), livecodebench.py,
codeforces.py, mathematics.py (AIME and MATH-500), cruxeval.py, and dataset.py for what curate built.
"""
