"""From scored completions to better weights.

Begin with learner.py: minibatches in, better weights out, on one rank or several. sequences.py packs completions into
rows; loss.py is the objective of a minibatch, made of the formulas of objectives.py. policy.py is the model, with
packed rows in (attention.py) and log-probabilities out (logprob.py); model_files.py reads and writes its files. On
several GPUs: ranks.py and heartbeats.py. sharded_state.py: checkpoints, and moments on the CPU. flops.py: what training
costs.
"""
