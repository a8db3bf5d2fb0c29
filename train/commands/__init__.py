"""The commands of this package, one file each; swarm.py has the group `curate swarm`.

Begin with train.py. options.py has what several commands share: the options of a run's configuration, of engines and of
evaluations, and tables of text.
"""

COMMANDS = (
    "compare", "config", "coordinator", "difficulty", "evaluate", "evaluations", "export_evaluation", "ledger", "plan",
    "plot", "relay", "rescore", "results", "rollout", "swarm", "train", "verifier",
)  # fmt: skip
