"""One learner on several GPUs.

ranks.py             the processes that share one learner
heartbeats.py        they tell each other that they live
context_parallel.py  several of them share each row (context parallelism)
offload.py           the optimizer's moments stay on the CPU
sharded_state.py     each reads and writes its own parts of the learner's state
"""
