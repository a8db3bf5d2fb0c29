"""The files of a run, its evaluations, and estimates of its memory.

Begin with folder.py, which lists the files of a run, and checkpoint.py, from which --resume continues. step_metrics.py
computes metrics and metrics_log.py writes them; plots.py and model_card.py present them. evaluation_scheduler.py
starts evaluations, and reward_training.py trains the reward model. plan.py and memory.py are for --dry-run.
"""
