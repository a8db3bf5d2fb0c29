"""Simulated runs, for `curate plan`: the controller's rules, on a clock that jumps from event to event.

Begin with split.py, which finds the best split of GPUs between learner and engines, and simulate.py, which runs one.
engine.py models the speed of engines and learner.
"""
