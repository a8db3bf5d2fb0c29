"""The commands of this package, one file each; results.py and swarm.py have groups of commands.

Begin with train.py. options.py has the options, tables and signal handling that several commands share.
"""

COMMANDS = (
    "difficulty", "evaluate", "plan", "probe", "relay", "results", "results:compare", "results:evaluations",
    "results:export_evaluation", "results:rescore", "rollout", "swarm", "swarm:coordinator", "swarm:ledger",
    "swarm:verifier", "train", "train:config", "train:plot",
)  # fmt: skip
