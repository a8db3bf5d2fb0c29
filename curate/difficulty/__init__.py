"""Solve rates of problems by model, and the selection of problems by solve rate.

table      the table `difficulty/`: solve rates by problem and model
pass_at_k  the unbiased estimate of pass@k
band       the copy of a dataset with only the problems in a solve-rate band
"""
