"""How long a run will take, and how to split GPUs between learner and engines: the product's own controller, driven by
a clock that jumps from event to event.

rates.py     how long an engine and a learner take, from a GPU's data sheet or from measurements
lengths.py   how long answers are: log-normal with a heavy tail, cut off at the limit
engine.py    an engine that only keeps time
simulate.py  a run: controller, engines, rewards and learner, event by event
split.py     the best split of N GPUs for each pipeline
"""
