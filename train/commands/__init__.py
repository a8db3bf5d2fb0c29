"""The commands of this package. results.py has those for results of evaluations, swarm.py those of a swarm.

Begin with train.py. options.py has what several commands share: the options of a run's configuration, of engines and of
evaluations, and tables of text.
"""

COMMANDS = (
    "difficulty", "evaluate", "plan", "probe", "relay", "results", "results:compare", "results:evaluations",
    "results:export_evaluation", "results:rescore", "rollout", "swarm", "swarm:coordinator", "swarm:ledger",
    "swarm:verifier", "train", "train:config", "train:plot",
)  # fmt: skip
