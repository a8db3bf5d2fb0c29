"""A node: the worker of the asynchronous system (train/asynchronous/workers/) for a coordinator that distrusts it.

swarm_controller.py  the coordinator, as the worker sees a controller; leases and their answers so far
identity.py          the key of a node, and its engine and hardware in words
node_process.py      what `curate rollout --join` does
"""
