"""The controller: it hands out groups under leases, takes answers, has them scored, and cuts batches.

settings.py            what a controller has to know of a run's configuration
result_validation.py   what an answer has to satisfy
leases.py              who samples what, and who has stopped
load_balancing.py      how groups are dealt out when several workers have room
journaled_groups.py    the groups and their journal, which change only together
dispatcher.py          which groups a worker is asked for
batch_selection.py     which groups are the next batch, and when it is ready
controller_metrics.py  what is counted beside the groups
evaluation_sampler.py  the workers of a controller as one sampler, for evaluation
controller.py          what the trainer and the workers call
"""
