"""How often a model solves the problems of a set, with confidence intervals. Begin with evaluate.py.

exercises.py reads the problems of a dataset or a suite; suites/ has the suites, judges/ what judges their answers, and
protocols/ how they are asked. evaluate.py draws answers and judges them, and sample_store.py keeps them. difficulty.py
and rescore.py build on it: solve rates for `curate difficulty`, and new verdicts on kept answers for `curate rescore`.
Results are written and read in results/; for_inspect.py judges the answers of inspect_ai.
"""
