"""Ends by a signal to itself."""

from sandbox.probes.probe import Group, ProbeClass, inside

CLASS = ProbeClass(
    Group.FORGE,
    "signals",
    why="The judge looks for exit statuses above 0, and a process that a signal ended has a negative one or none.",
    remedy="Accept exit status 0 only, together with a result.",
    source="ours",
    probes=tuple(
        inside(name, f"import os\nos.kill(os.getpid(), {number})")
        for name, number in {"kill": 9, "terminate": 15, "segmentation-fault": 11, "abort": 6, "alarm": 14}.items()
    ),
)
