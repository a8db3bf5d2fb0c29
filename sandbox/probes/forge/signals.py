"""Submissions that kill themselves with a signal."""

from sandbox.probes.probe import Group, ProbeClass, make_body_probe

CLASS = ProbeClass(
    Group.FORGE,
    "signals",
    why="The judge checks for exit statuses above 0, but a process killed by a signal has a negative one or none.",
    remedy="Require exit status 0 and a result.",
    source="ours",
    probes=tuple(
        make_body_probe(name, f"import os\nos.kill(os.getpid(), {number})")
        for name, number in {"kill": 9, "terminate": 15, "segmentation-fault": 11, "abort": 6, "alarm": 14}.items()
    ),
)
