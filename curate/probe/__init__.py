"""Tests of anybody's judge of code: `curate probe` submits the catalogue of sandbox/probes to it.

Begin with prober.py. A judge is a Python function in a process of its own (python_judge, worker, isolation, forms) or a
server (http_judge).
"""
