"""What a run writes to disk.

folder.py         the folder of a run, locked by one process; its configuration
checkpoint.py     what --resume continues from
metrics_log.py    a line of numbers for each step, and sample completions; TensorBoard and wandb
step_metrics.py   those numbers as pure functions, and what each of them means
performance.py    figures of speed and memory
timeline.py       when each part of a run worked
plot.py           pictures of curves, side by side
plot_timeline.py  pictures of timelines
plot_style.py     what all pictures share
plan.py           what a run will do and need, before it starts
model_card.py     the README of the trained model; model_card.md is its template
describe.py       rewards and objective in words, for the model card
"""
