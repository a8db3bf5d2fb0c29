"""Training with workers that nobody has to trust.

    trainer  <-HTTP-  coordinator  <-signed-  nodes: sample, commit to what they computed, upload completions
                        |     ^-------signed-  verifiers: repeat the computation by prefill, and compare
                      relays: signed versions of the weights, in shards

To the trainer, a coordinator is one more worker (train/asynchronous): it asks for groups and hands over answers, after
a verifier has found that they are the model's own words. Relays, coordinators and clients need no torch.

signatures.py      keys, and bytes that are signed with them
settings.py        what all nodes of a swarm agree on, and which runs a swarm can work for
messages.py        what is said to a coordinator
broadcast/         versions of the weights: signed, in shards, over relays
coordinator/       the process between a trainer and the nodes
invites.py         the text that lets somebody in
requests.py        what a request says about itself; its signature, and that of the reply
client.py          call a coordinator, be admitted with an invite; the operator's client
node_lifecycle.py  the life of a node
accounts.py        the entries of the ledger, and what they add up to
ledger.py          what happened between the coordinator and its nodes, in a chain that nobody can change unnoticed
folder.py          the folder of a coordinator
lease_file.py      the answers to a lease, as they are checked and as verifiers read them
node.py            a worker whose coordinator has its answers checked
verification/      are these answers the model's own words? The process that finds it out
"""
