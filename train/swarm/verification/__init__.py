"""Are the answers in a file the model's own words? Checked by repeating the computation, and comparing.

A verifier runs the finished answers through the model once (a prefill), which is much cheaper than drawing them. From
that it has the hidden states to which the node has committed, and the logits, to which it adds the noise that belongs
to the seeds of the lease: the largest noisy logit must be the token. Nothing that a node says about its own tokens is
used later, log-probabilities included.

verifier_model.py    VerifierModel: recomputes answers (torch, which it imports when it is made)
distances.py         what it computes of an answer, and how far the answer is from it
threshold_checks.py  the bars of a pair of engines, and which distances are within them
verdicts.py          the verdict on the file of a lease
calibrate.py         bars from answers that are known to be honest, as a TOML file
"""
