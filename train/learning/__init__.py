"""From scored completions to better weights.

learner.py     minibatches in, better weights out; on one rank or several
ranks.py       the processes that share one learner
model.py       a causal language model: packed rows in, log-probabilities out
attention.py   attention of each token of a row to its own prompt and answer
logprob.py     log-probabilities of tokens without holding all logits
sequences.py   what the learner sees of completions, and how they are packed into rows
packing.py     which prompts and answers share a row
objectives.py  the mathematics of policy optimisation, one formula each
loss.py        the objective of a minibatch, as a run's [objective] defines it
schedule.py    the learning rate
memory.py      how much memory of each GPU a learner will need
flops.py       how many operations training on a batch takes
"""
