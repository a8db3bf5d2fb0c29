"""The controller: it hands out groups under leases, takes answers, has them scored, and cuts batches.

settings.py    what a controller has to know of a run's configuration
answers.py     what an answer has to satisfy
leases.py      who samples what, and who has stopped
dealing.py     how groups are dealt out when several workers have room
record.py      the groups and their journal, which change only together
asking.py      which groups a worker is asked for
batch.py       which groups are the next batch, and when it is ready
tally.py       what is counted beside the groups
sampler.py     the workers of a controller as one sampler, for evaluation
controller.py  what the trainer and the workers call
"""
