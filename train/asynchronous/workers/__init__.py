"""Workers: each is one engine that works for a controller, wherever that is.

patience.py       calls of a controller that is gone are repeated
finished.py       completions as answers
holdings.py       what a worker holds: leases, answers that are not sent, weights that are not loaded
errands.py        the threads of a worker that talk to the controller
worker.py         the worker itself
nearest.py        weights from wherever they can be read
rollout.py        what `curate rollout` does
ray_actors.py     the same as actors of a Ray cluster
local_worker.py   what a process on the trainer's machine runs
local_workers.py  starts such processes, and starts them again
"""
