"""Training with untrusted workers.

    trainer  <-HTTP-  coordinator  <-signed-  nodes: sample, commit to hidden states, upload completions
                        |     ^-------signed-  verifiers: recompute by prefill, and compare
                      relays: signed versions of the weights, in shards

To the trainer, a coordinator is one worker (train/asynchronous): it requests groups, and submits the completions that
verifiers accepted. Relays, coordinators and clients need no torch.

signatures.py      keys, and signed bytes
settings.py        the signed settings of a swarm, and checks that a swarm can serve a run
messages.py        the messages to a coordinator
broadcast/         distribution of signed weights over relays
coordinator/       the process between a trainer and the nodes
invites.py         signed invites to a swarm
requests.py        signed requests and replies
client.py          signed calls to a coordinator; the operator's client
node_lifecycle.py  the states of a node
accounts.py        the entries of the ledger, and the accounts derived from its entries
ledger.py          a signed hash chain of leases, verdicts and payments
folder.py          the folder of a coordinator
lease_file.py      the completions of a lease as a file, and checks that need no model
node.py            a worker for a coordinator
verification/      verification of completions by recomputation
"""
