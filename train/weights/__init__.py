"""Transfer of weights from the learner to the engines.

Begin with manifest.py, the description of one version, and source.py, the interfaces of transports. Weights move within
a process or through shared memory (source.py), over HTTP (http_source.py), or over NCCL (nccl.py). version_folder.py
shares downloads among the processes of a machine. checksums.py is for the comparison of an engine's weights with the
learner's (train/sampling/proof.py).
"""
