"""Training while sampling never stops: a controller beside rank 0, and workers that ask it for prompts.

    learner ranks <- rank 0: loop.py <- controller (groups, journal, rewards)
                                            ^ calls in this process, or HTTP
                     worker x n: one engine each; asks for groups, sends answers, fetches weights; opens no port

messages.py    what workers and the controller say to each other, the same in one process and over HTTP
staleness.py   the bound: which groups may be asked, and which cut may be trained on, so that nothing is ever too old
settings.py    what a controller has to know of a run's configuration
events.py      what happens to groups
groups.py      the states of a group, from being asked to being used
journal.py     everything that happened to groups, on disk before it is trained on
packed.py      token ids and log-probabilities as bytes
answers.py     what an answer has to satisfy
leases.py      who samples what, and who has stopped
dealing.py     how groups are dealt out when several workers have room
tally.py       what is counted beside the groups
sampler.py     the workers of a controller as one sampler, for evaluation
controller.py  hands out groups under leases, takes answers, has them scored, and cuts batches
audit.py       proof from the journal: nothing was lost, doubled, or too old
finished.py    completions as answers
patience.py    calls of a controller that is gone are repeated
holdings.py    what a worker holds: leases, answers that are not sent, weights that are not loaded
errands.py     the threads of a worker that talk to the controller
worker.py      one engine that works for a controller, wherever that is
routes.py      the controller over HTTP
server.py      the HTTP server of a controller, in a thread
client.py      the controller, as a worker sees it over HTTP
nearest.py     weights from wherever they can be read
pipeline.py    the asynchronous pipeline, as the loop sees it
opened.py      a run's controller with all that works around it
local_workers.py  workers in processes of their own on the trainer's machine
local_worker.py   what such a process runs
replay.py      a run that is trained again from its journal
audit_report.py   what a journal proves, in words
rollout.py     what `curate rollout` does
ray_actors.py  the same as actors of a Ray cluster
"""
