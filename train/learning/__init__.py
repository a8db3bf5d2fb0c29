"""From scored completions to better weights.

packing.py          which prompts and answers share a row
sequences.py        what the learner sees of completions, and how they are packed into rows
distributed/        one learner on several GPUs: ranks, heartbeats, context parallelism, offloading, sharded states
model/              the model: attention, log-probabilities, LoRA, files
objectives.py       the mathematics of policy optimisation, one formula each
loss.py             the objective of a minibatch, as a run's [objective] defines it
schedule.py         the learning rate
memory_estimate.py  how much memory of each GPU a learner will need
flops.py            how many operations training on a batch takes
learner.py          minibatches in, better weights out; on one rank or several

Each of these imports only those that stand before it.
"""
