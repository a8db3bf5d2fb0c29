"""Training with untrusted workers.

    trainer  <-HTTP-  coordinator  <-signed-  nodes: sample, commit to hidden states, upload completions
                        |     ^-------signed-  verifiers: recompute by prefill, and compare
                      relays: signed versions of the weights, in shards

To the trainer, a coordinator is one worker (train/asynchronous): it requests groups, and submits completions once a
verifier has shown that they are the model's. Relays, coordinators and clients need no torch.

signatures.py      keys, and signed bytes
settings.py        the signed settings of a swarm, and which runs a swarm can serve
messages.py        the messages to a coordinator
broadcast/         versions of the weights: signed, in shards, over relays
coordinator/       the process between a trainer and the nodes
invites.py         signed invites to a swarm
requests.py        signed requests and replies
client.py          signed calls to a coordinator; the operator's client
node_lifecycle.py  the states of a node
accounts.py        the entries of the ledger, and the accounts that they add up to
ledger.py          a signed hash chain of what happened between the coordinator and its nodes
folder.py          the folder of a coordinator
lease_file.py      the completions of a lease as a file, and their first checks
node.py            a worker for a coordinator, which has its completions verified
verification/      the process that verifies completions by recomputing them
"""
