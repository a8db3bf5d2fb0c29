"""Tests of anybody's judge of code: `curate probe` submits the catalogue of sandbox/probes to it.

Begin with prober.py; rows.py makes further probes from a dataset. A judge is a Python function in a process of its own
(python_judge, worker, isolation, forms, verifiers_judge) or a server (http_judge).
"""
