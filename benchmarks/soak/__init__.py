"""An endurance test of the local backend: resources must stay constant, and all verdicts right.

    python -m benchmarks.soak [RUNS]     (default: 200,000, some fifteen minutes on two cores)

There are three parts, which run one after the other:
    steady.py    right, wrong and hostile programs, mixed, in one Sandbox; its resources are sampled between rounds
    kills.py     the same programs while workers, judges and zygotes are killed at random moments
    restarts.py  `curate judge`, killed at random moments and restarted until it is done
The right verdict of each submission is known beforehand, so every verdict is checked.
"""
