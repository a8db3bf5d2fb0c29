"""A node: the worker of the asynchronous system (train/asynchronous/workers/) for a coordinator that distrusts it.

held_leases.py       the leases that a node has, and their answers so far
swarm_controller.py  the coordinator, as the worker sees a controller
identity_key.py      the key of a node
node_description.py  the node's engine and hardware, in words
node_process.py      what `curate rollout --join` does
"""
