"""Transfer of weights from the learner to the engines.

Begin with manifest.py, the description of one version, and source.py, the interfaces of all transports. The transports:
tensors within a process and files in shared memory (source.py), files over HTTP (http_source.py), and NCCL (nccl.py).
version_folder.py shares downloads among the processes of a machine. checksums.py computes the checksums by which
train/sampling/proof.py compares an engine's weights with the learner's.
"""
