"""A catalogue of submissions that distinguish sound judges of code from weak ones: correct solutions and hacks.

Each folder is a group, and each file in it defines one class of probes, `CLASS`. `curate probe` submits the probes to
any judge, and the project's tests submit them to this sandbox. The catalogue imports only the standard library and the
data types of suites.

Every hack is harmless, since a weak judge runs it without protection. It writes only to pipes, unnamed files, and its
own files in its working or temporary folder. It signals only itself, connects only to curate's listener on loopback,
and exits within `JudgeProbe.seconds`.
"""

import pkgutil
from functools import cache
from importlib import import_module

from sandbox.probes.probe import Convention, ProbeClass, Submissions
from sandbox.probes.problems import get_first_problem

__all__ = ["find_submissions", "list_probe_classes"]


@cache
def list_probe_classes() -> tuple[ProbeClass, ...]:
    """Return all classes of probes, sorted by group and name."""
    classes = []
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        if not module.ispkg and module.name.count(".") == 3:
            classes.append(import_module(module.name).CLASS)
    return tuple(classes)


def find_submissions(probe_id: str) -> Submissions:
    """Return a probe's submissions for the first problem of a convention.

    probe_id   GROUP/CLASS/PROBE/CONVENTION
    """
    class_id, name, convention = probe_id.rsplit("/", 2)
    probe_class = next(each for each in list_probe_classes() if each.id == class_id)
    probe = next(each for each in probe_class.probes if each.name == name)
    return probe.make_submissions(get_first_problem(Convention(convention)))
