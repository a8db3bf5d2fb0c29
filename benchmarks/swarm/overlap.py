"""The idle time of a swarm's trainer: INTELLECT-2's outer ring on a simulated clock.

    python -m benchmarks.swarm.overlap     # five minutes on one core

The durations are those of INTELLECT-2 (32B). A broadcast of 65.6 GB at 590 Mb/s takes 14 minutes, and a step of the
trainer 22. Upload and verification of a file take one minute each. The whole batch is verified 22 minutes after a
broadcast. These 22 minutes are the mean time of a group, or the longest one, at which its lease expires. Deltas have 4%
of the bytes (train/swarm/broadcast/delta.py): 36 seconds. A joining node needs a whole version.

Nodes sample four groups concurrently and have a quarter more capacity than the trainer uses. Node speeds are log-normal
(sigma 0.3), and so are group times on one node (sigma 0.2). 5% of the nodes vanish per hour; the coordinator dispatches
their groups again three heartbeats later.
"""

from dataclasses import asdict, replace
from statistics import fmean
from typing import Any

from benchmarks.record import save_results
from benchmarks.swarm.ring import MINUTE, Ring, Swarm, simulate

BROADCAST, DELTA = 14 * MINUTE, 36.0
RING = Ring(BROADCAST, BROADCAST, 22 * MINUTE, MINUTE, MINUTE, 22 * MINUTE)
ALIKE = Swarm(100, spare=0.25)
REAL = replace(ALIKE, speed_sigma=0.3, length_sigma=0.2, churn=0.05)
BOUNDS = (1, 2, 3, 4)
SEEDS = (0, 1, 2)
_DEADLINE = 2  # time until a lease expires, in mean times of a group


def make_cases() -> dict[str, tuple[Ring, Swarm]]:
    found = {"equal nodes": (RING, ALIKE)}
    mean = replace(REAL, lease_seconds=_DEADLINE * RING.generate)
    quick = replace(RING, generate=RING.generate / _DEADLINE)
    quick_swarm = replace(REAL, lease_seconds=_DEADLINE * quick.generate)
    for nodes in (10, 100, 1000):
        found[f"{nodes:,} nodes, mean group time 22 min"] = RING, replace(mean, nodes=nodes)
        found[f"{nodes:,} nodes, longest group time 22 min"] = quick, replace(quick_swarm, nodes=nodes)
    found["100 nodes, longest group time 22 min, none vanish"] = quick, replace(quick_swarm, churn=0.0)
    found["100 nodes of equal speed, longest group time 22 min"] = quick, replace(quick_swarm, speed_sigma=0.0)
    return found


def measure(ring: Ring, swarm: Swarm) -> dict[str, Any]:
    """Return the trainer's idle share by bound on staleness: by the formula, and simulated, as the mean over seeds."""
    bounds = {}
    for bound in BOUNDS:
        idle = fmean(simulate(ring, swarm, bound, seed=seed).trainer_idle for seed in SEEDS)
        bounds[str(bound)] = {"trainer_idle": round(idle, 4), "formula_idle": round(ring.compute_idle_share(bound), 4)}
    return bounds


def main() -> None:
    swarm_values = {name: getattr(REAL, name) for name in ("spare", "speed_sigma", "length_sigma", "churn")}
    found: dict[str, Any] = {
        "seeds": len(SEEDS),
        "ring": asdict(RING),
        "delta_seconds": DELTA,
        "swarm": swarm_values,
        "cases": {},
    }
    for name, (ring, swarm) in make_cases().items():
        for label, broadcast in (("whole", BROADCAST), ("deltas", DELTA)):
            result = measure(replace(ring, broadcast=broadcast), swarm)
            found["cases"].setdefault(name, {})[label] = result
            print(f"{name}, {label}: {result}", flush=True)
    save_results("overlap", found)


if __name__ == "__main__":
    main()
