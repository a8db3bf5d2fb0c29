"""Weights on their way from the learner to the engines, and the proof that they arrive.

Begin with manifest.py, the description of one version, and source.py, both ends of every way. The ways: tensors within
a process (source.py), files in memory (shared_memory.py), files over HTTP (http_source.py), from GPU to GPU (nccl.py).
proof.py compares what an engine holds with what the learner sent, by the checksums of checksums.py.
"""
