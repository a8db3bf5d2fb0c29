"""The learner: scored completions in, updated weights out.

Begin with learner.py: one optimizer step per minibatch, on one rank or several. sequences.py packs completions into
rows; loss.py composes the formulas of objectives.py. policy.py wraps the model, with packed attention (attention.py)
and chunked log-probabilities (logprob.py); model_files.py reads and writes its files. ranks.py and heartbeats.py are
for several GPUs. sharded_state.py writes and reads checkpoints, and keeps optimizer moments on the CPU.
"""
