"""Estimates from the samples of an evaluation, with their errors, by the standard library alone.

Begin with outcomes.py: the outcomes of a problem's samples, and the summary of a set of problems. intervals.py has
confidence intervals; comparison.py tests whether models differ.
"""
