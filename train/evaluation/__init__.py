"""Evaluation: a model's solve rate on a suite, with confidence intervals. Begin with evaluate.py.

exercises.py reads the problems of a dataset or a suite; suites/ has the suites, judges/ the judges of completions, and
protocols/ the published settings. sample_store.py stores completions and verdicts. difficulty.py measures solve rates
for `curate difficulty`, rescore.py rejudges stored completions, and for_inspect.py judges completions of inspect_ai.
results/ writes and reads results.
"""
