"""All that a run writes to disk, its evaluations, and what it is expected to need.

Begin with folder.py, which lists the files of a run, and checkpoint.py, which --resume continues from. Metrics are
computed in step_metrics.py and written by metrics_log.py; plots.py and model_card.py show them.
evaluation_scheduler.py decides when a run is evaluated. plan.py and memory.py are for `curate train --dry-run`.
"""
