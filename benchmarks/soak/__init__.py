"""Endurance of the local backend: does it hold what it held at the start, and are its verdicts right to the end?

    python -m benchmarks.soak [RUNS]     (default: 200,000, some fifteen minutes on two cores)

Three parts, one after the other:
    steady.py     right, wrong and hostile programs, mixed, in one Sandbox; what it holds is sampled between rounds
    deaths.py     the same while workers and zygotes are killed at random moments
    restarts.py   `curate judge` killed at random moments and started again until it is done
What must become of each submission is known beforehand, so every verdict is checked.
"""
