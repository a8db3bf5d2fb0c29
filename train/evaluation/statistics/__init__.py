"""Estimates from evaluation samples, with standard errors; uses only Python's standard library.

Begin with outcomes.py: the outcomes of a problem's samples, and the summary of several problems. intervals.py has
confidence intervals; comparison.py tests whether models differ.
"""
