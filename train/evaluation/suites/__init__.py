"""Suites: the published sets of problems on which models are evaluated, from rows to exercises.

Begin with suite.py: the interface of suites, their options, and exercises. ../exercises.py maps command-line names to
suites: code.py (HumanEval, HumanEval+, MBPP and MBPP+), livecodebench.py, codeforces.py, mathematics.py (AIME and
MATH-500), cruxeval.py, and dataset.py for what curate built.
"""
