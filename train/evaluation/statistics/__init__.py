"""What the samples of an evaluation say about a model, and with which error.

outcomes.py       what is known of the samples of a problem; the input of everything below
student_t.py      quantiles of Student's t distribution
pass_at_j.py      pass@j for all j, and how many problems are always solved
confidence.py     standard error and confidence intervals of a mean over problems
bootstrap.py      confidence intervals of estimates that have no formula for their error
summary.py        all numbers of a set of problems: one row of a table
strata.py         a summary for each difficulty, platform or month
contamination.py  a summary of the problems since each month
sign_flip.py      permutation test of paired differences
mcnemar.py        exact test of problems that only one of two models solved
comparison.py     two models on the same problems
holm.py           p-values of several comparisons
ranking.py        several models, each compared with the best or with a reference

Everything here is plain mathematics on values in memory and needs only the standard library.
"""
