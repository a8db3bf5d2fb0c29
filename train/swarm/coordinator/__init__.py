"""The process between a trainer and the nodes that nobody trusts.

To the trainer it is one worker, named "swarm". It hands each group that the trainer asks it for to one node, has a
verifier check the file that comes back, and hands over what the verifier computed: nothing that a node says about its
own answers is believed. What is not accepted is given back, and the trainer asks for it again, with the same prompt and
seeds.

lease_lifecycle.py    the life of a lease
coordinator_state.py  nodes, verifiers and leases, with the ledger; no clock, no network, no threads
intake.py             what is let in: refusals, bodies bounded in size and time, answers without a verdict
nonces.py             requests that came before
controller_link.py    the trainer's side: asks, hands over, gives back, beats
coordinator.py        the parts together: what each call does
app.py                the ASGI application
status.py             what the operator sees, and its page
runtime.py            start a coordinator in its folder
"""
