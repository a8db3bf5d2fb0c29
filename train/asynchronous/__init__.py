"""Training while sampling never stops: a controller beside rank 0, and workers that ask it for prompts.

    learner ranks <- rank 0: loop.py <- controller (groups, journal, rewards)
                                            ^ calls in this process, or HTTP
                     worker x n: one engine each; asks for groups, sends answers, fetches weights; opens no port

messages.py       what workers and the controller say to each other, the same in one process and over HTTP
binary_arrays.py  token ids and log-probabilities as bytes
groups/           the states of a group, from being asked to being used, and the bound on staleness
journal/          everything that happened to groups, on disk before it is trained on, and proofs from it
controller/       hands out groups under leases, takes answers, has them scored, and cuts batches
http/             the controller over HTTP
workers/          engines that work for a controller: in its process, on its machine, or anywhere
pipeline.py       the asynchronous pipeline, as the loop sees it
replay.py         a run that is trained again from its journal
runtime.py        a run's controller with all that works around it

Each of these imports only those that stand before it.
"""
