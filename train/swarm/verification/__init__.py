"""Are the answers in a file the model's own words? Checked by repeating the computation, and comparing.

A verifier runs the finished answers through the model once (a prefill), which is much cheaper than drawing them. From
that it has the hidden states to which the node has committed, and the logits, to which it adds the noise that belongs
to the seeds of the lease: the largest noisy logit must be the token. Nothing that a node says about its own tokens is
used later, log-probabilities included.

recomputation.py       Recomputation: what a verifier computes of an answer
verifier_model.py      VerifierModel: computes views (torch, which it imports when it is made)
distances.py           how far an answer is from a view
mismatch_tolerance.py  how many tokens may differ by honest rounding
threshold_checks.py    which distances are within the bars of the run
threshold_lookup.py    the bars of a pair of engines
verdicts.py            the verdict on the file of a lease
threshold_fitting.py   bars from answers that are known to be honest
calibrate.py           such answers, drawn by a run's engine to its own prompts
thresholds_file.py     bars as a TOML file
"""
