"""The processes of this machine, and which of them descend from others."""

import os
from pathlib import Path


def processes() -> dict[int, tuple[int, str]]:
    """Return all living processes: pid -> (parent, start time)."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path(f"/proc/{name}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if fields[0] != "Z":
            found[int(name)] = (int(fields[1]), fields[19])
    return found


def below(pid: int) -> set[tuple[int, str]]:
    """Return the descendants of `pid`, each with its start time."""
    everybody, found, wanted = processes(), set(), [pid]
    while wanted:
        parent = wanted.pop()
        for child, (its_parent, started) in everybody.items():
            if its_parent == parent:
                found.add((child, started))
                wanted.append(child)
    return found


def alive(some: set[tuple[int, str]]) -> set[tuple[int, str]]:
    return some & {(pid, started) for pid, (_, started) in processes().items()}
