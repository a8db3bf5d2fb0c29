"""How often a model solves the problems of a set, with confidence intervals. Begin with evaluate.py.

exercise.py is a problem as a model sees it, with its judge; exercises.py reads the problems of a dataset or a suite.
sample_and_judge.py draws answers and judges them, and sample_store.py keeps them. evaluate.py, difficulty.py and
rescore.py build on these: pass@1 for `curate evaluate` and within training, solve rates for `curate difficulty`, and
new verdicts on kept answers for `curate rescore`. Results are written and read in results/.
"""
