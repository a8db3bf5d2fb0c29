"""A soak test of the local backend: every verdict must be right, and no resource may grow.

python -m benchmarks.soak [RUNS]     (default: 200,000, over 17 minutes on two cores)

steady.py    right, wrong and hostile programs, mixed, in one Sandbox; its resources are sampled between rounds
kills.py     the same programs while workers, judges and zygotes are killed at random moments
restarts.py  `curate judge`, killed at random moments and restarted until it is done
"""
