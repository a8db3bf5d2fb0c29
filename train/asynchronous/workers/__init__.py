"""Workers: each is one engine that works for a controller, wherever that is.

retry.py               calls of a controller that is gone are repeated
result_encoding.py     completions as answers
worker_state.py        what a worker holds: leases, answers that are not sent, weights that are not loaded
controller_threads.py  the threads of a worker that talk to the controller
rollout_worker.py      the worker itself
local_first_source.py  weights from wherever they can be read
rollout_process.py     what `curate rollout` does
ray_actors.py          the same as actors of a Ray cluster
local_worker_main.py   what a process on the trainer's machine runs
local_workers.py       starts such processes, and starts them again
"""
