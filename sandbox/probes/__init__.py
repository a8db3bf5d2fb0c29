"""A catalogue of submissions that distinguish sound judges of code from weak ones: correct solutions and hacks.

Each folder is a group, and each file in it defines one class of probes, `CLASS`. `curate probe` submits them to any
judge, and the tests to this sandbox. The catalogue imports only the standard library and the data types of suites.

Every hack is harmless, since a weak judge runs it without protection. It writes only to pipes, unnamed files, and its
own files in its working or temporary folder. It signals only itself, connects only to curate's listener on loopback,
and exits within its stated seconds.
"""

import pkgutil
from functools import cache
from importlib import import_module

from sandbox.probes.probe import Convention, ProbeClass, Submissions
from sandbox.probes.problems import get_first_problem

__all__ = ["find_submissions", "probe_classes"]


@cache
def probe_classes() -> tuple[ProbeClass, ...]:
    """Return all classes of probes, sorted by group and name."""
    found = []
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        if not module.ispkg and module.name.count(".") == 3:
            found.append(import_module(module.name).CLASS)
    return tuple(found)


def find_submissions(id: str) -> Submissions:
    """Return the submissions of the probe GROUP/CLASS/PROBE/CONVENTION for the first problem of that convention."""
    class_id, name, convention = id.rsplit("/", 2)
    of_class = next(each for each in probe_classes() if each.id == class_id)
    probe = next(each for each in of_class.probes if each.name == name)
    return probe.make_submissions(get_first_problem(Convention(convention)))
