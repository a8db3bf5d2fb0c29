"""Evaluation: a model's solve rate on a suite, with confidence intervals. Begin with evaluate.py.

exercises.py reads the problems of a dataset or a suite; suites/ has the suites, judges/ the judges of completions, and
protocols/ published settings. evaluate.py samples completions and judges them, and sample_store.py stores them.
difficulty.py and rescore.py build on it: solve rates for `curate difficulty`, and new verdicts on stored completions
for `curate rescore`. results/ writes and reads results; for_inspect.py judges the completions of inspect_ai.
"""
