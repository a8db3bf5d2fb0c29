"""A catalogue of submissions that tell a sound judge of code from a weak one: right answers in many shapes, and hacks.

Each folder is a group, and each file in it one class of probes, known by the name `CLASS`. `curate probe` submits them
to anybody's judge, and tests submit them to ours. The catalogue imports nothing that judges, so that the
sandbox's own checks can read it; it needs nothing but the standard library.

Every hack is harmless by construction, since a weak judge runs it without protection. It writes to no file but those
that it makes in its working or temporary folder, and to no descriptor but pipes and files without a name. It signals no
process but itself, connects to nothing but a listener of ours on loopback, and ends within its stated seconds.
"""

import pkgutil
from functools import cache
from importlib import import_module

from sandbox.probes.probe import Convention, ProbeClass, Trial
from sandbox.probes.problems import first_problem

__all__ = ["find_trial", "probe_classes"]


@cache
def probe_classes() -> tuple[ProbeClass, ...]:
    """Return all classes of probes, in the order of their names within each group."""
    found = []
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        if not module.ispkg and module.name.count(".") == 3:
            found.append(import_module(module.name).CLASS)
    return tuple(found)


def find_trial(id: str) -> Trial:
    """Return the trial of the probe GROUP/CLASS/PROBE/CONVENTION for the first problem of that convention."""
    class_id, name, convention = id.rsplit("/", 2)
    of_class = next(each for each in probe_classes() if each.id == class_id)
    probe = next(each for each in of_class.probes if each.name == name)
    return probe.make(first_problem(Convention(convention)))
