"""Estimates from the samples of an evaluation, with their errors.

Begin with outcomes.py: the outcomes of a problem's samples, and the summary of a set of problems. intervals.py has
their confidence intervals, comparison.py tests whether models differ. All is mathematics on values in memory and needs
only the standard library.
"""
