"""Verification that the completions in a file are the model's, by recomputing and comparing them.

A verifier runs finished completions through the model once (a prefill), which is much cheaper than sampling them. It
compares the hidden states with the node's commitments, and adds the noise of the lease's seeds to the logits: the
largest noisy logit must be the token. None of the node's claims about its tokens is used later, including
log-probabilities.

verifier_model.py    VerifierModel: recomputes completions (imports torch on construction)
verdicts.py          distances between completions and recomputation, and the verdict on the file of a lease
thresholds.py        thresholds of a pair of engines, as a TOML file; distances within them
calibrate.py         thresholds measured from honest completions
verifier_process.py  the process: takes files from a coordinator, and sends verdicts
"""
