"""Record how often a model solves each problem, and make datasets of the problems in a band of solve rates.

table      the table `difficulty/`: solve rates by problem and model
pass_at_k  the unbiased estimate of pass@k
band       a minimum and a maximum solve rate, and a copy of a dataset with the problems between them
"""
