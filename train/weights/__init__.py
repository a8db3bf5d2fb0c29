"""Weights on their way from the learner to the engines.

Begin with manifest.py, the description of one version, and source.py, both ends of every way. The ways: tensors within
a process and files in memory (source.py), files over HTTP (http_source.py), from GPU to GPU (nccl.py).
version_folder.py shares what was fetched among the processes of a machine; checksums.py makes the checksums by which
train/sampling/proof.py compares an engine with what the learner sent.
"""
