"""Solve rates of problems by model, and datasets of the problems in a band of solve rates.

table      the table `difficulty/`: solve rates by problem and model
pass_at_k  the unbiased estimate of pass@k
band       a band of solve rates, and a copy of a dataset with the problems in it
"""
