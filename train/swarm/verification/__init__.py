"""Are the answers in a file the model's own words? Checked by repeating the computation, and comparing.

A verifier runs the finished answers through the model once (a prefill), which is much cheaper than drawing them. From
that it has the hidden states to which the node has committed, and the logits, to which it adds the noise that belongs
to the seeds of the lease: the largest noisy logit must be the token. Nothing that a node says about its own tokens is
used later, log-probabilities included.

verifier_model.py    VerifierModel: recomputes answers (torch, which it imports when it is made)
verdicts.py          how far answers are from what it computes, and the verdict on the file of a lease
thresholds.py        the bars of a pair of engines, as a TOML file; which distances are within them
calibrate.py         bars from answers that are known to be honest
verifier_process.py  the process: takes files from a coordinator, sends verdicts, until it is told to leave
"""
