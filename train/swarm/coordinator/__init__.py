"""The process between a trainer and untrusted nodes.

To the trainer it is one worker, named "swarm". It leases each group to one node, and has a verifier recompute the
uploaded completions. It submits the verifier's results, and releases groups that were not accepted. The trainer
dispatches released groups again, with the same prompt and seeds.

lease_lifecycle.py    the states of a lease
coordinator_state.py  nodes, verifiers and leases, with the ledger; no clock, no network, no threads
intake.py             bounded reading of bodies, and storage of results without a verdict
nonces.py             replay protection of requests
controller_link.py    the link to the trainer: requests, submits, releases, heartbeats
coordinator.py        handlers for the calls of nodes, verifiers and the operator
app.py                the ASGI application
status.py             the operator's status page
runtime.py            the process of `curate coordinator`
"""
