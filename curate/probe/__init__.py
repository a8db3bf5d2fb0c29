"""Tests of any judge of code: `curate probe` submits the catalogue of sandbox/probes to it.

Begin with prober.py; rows.py derives further probes from a dataset. A judge is a Python function in its own process
(python_judge, worker, isolation, forms, verifiers_judge) or a server (http_judge).
"""
