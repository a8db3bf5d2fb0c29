"""Discrete-event simulation of runs, for `curate plan`.

Begin with split.py, which finds the best split of GPUs between learner and engines. simulate.py simulates a split, and
engine.py models the speed of engines and learner.
"""
