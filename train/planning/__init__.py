"""Simulated runs, for `curate plan`: the controller's rules of asking and cutting, on a clock that jumps between events.

Begin with split.py, which finds the best split of GPUs between learner and engines, and simulate.py, which runs one.
engine.py has how long engines and learner take.
"""
