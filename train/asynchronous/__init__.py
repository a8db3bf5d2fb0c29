"""Asynchronous training: a controller in rank 0's process, and workers that request groups of completions from it.

    learner ranks <- rank 0: loop.py <- controller (groups, journal, rewards)
                                            ^ calls in this process, or HTTP
                     worker x n: one engine each; requests groups, submits completions, fetches weights; opens no port

Begin with messages.py (the protocol between workers and controller), group_states.py (the states of a group) and
staleness.py (the bound on the staleness of tokens). controller.py leases groups to workers, with dispatcher.py and
leases.py. journal.py records every event. server.py and client.py are the controller over HTTP. rollout_worker.py runs
an engine, and rollout_process.py is `curate rollout`. pipeline.py builds the controller of a run.
"""
