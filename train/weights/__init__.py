"""Weights on their way from the learner to the engines, in one of several ways, and the proof that they arrive.

manifest.py    what is handed over: version, files with sizes and digests, checksums of tensors, and fixed tokens with
               their log-probabilities, by which every engine checks itself
"""
