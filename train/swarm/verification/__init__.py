"""Verification that the completions of a lease are the model's, by recomputation.

A verifier runs finished completions through the model once (a prefill), which is cheaper than sampling. It compares the
hidden states with the node's commitments. It adds the noise of the lease's seeds to the logits: each token must have
the largest noisy logit. Training uses only the verifier's numbers.

verifier_model.py    the model that recomputes completions (imports torch on construction)
verdicts.py          distances between completions and recomputation, and the verdict on a lease
thresholds.py        thresholds of a pair of engines, and their TOML file
calibrate.py         thresholds fitted to honest completions
verifier_process.py  the process of `curate verifier`
"""
