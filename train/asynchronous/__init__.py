"""Training while sampling never stops: a controller beside rank 0, and workers that ask it for prompts.

    learner ranks <- rank 0: loop.py <- controller (groups, journal, rewards)
                                            ^ calls in this process, or HTTP
                     worker x n: one engine each; asks for groups, sends answers, fetches weights; opens no port

Begin with messages.py (what workers and the controller say to each other), group_states.py (the states of a group) and
staleness.py (the bound on the age of tokens). controller.py decides, with dispatcher.py and leases.py; journal.py holds
what happened; server.py and client.py are the controller over HTTP. rollout_worker.py runs an engine, and
rollout_process.py is `curate rollout`. pipeline.py puts a run together.
"""
