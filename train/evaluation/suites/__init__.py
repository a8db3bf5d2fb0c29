"""Evaluation suites: readers of published sets of problems, from rows to exercises.

Begin with suite.py: the interface of suites, their options, and exercises. code.py has HumanEval, HumanEval+, MBPP and
MBPP+, mathematics.py AIME and MATH-500, and dataset.py the datasets that curate built. ../exercises.py registers them.
"""
