#!/usr/bin/env python3
"""Check the sandbox on a machine with systemd and cgroup v2, which QEMU emulates.

    tests/machines/run.py                       all scenarios (scenarios.py), as a table; exit 1 if one does not hold
    tests/machines/run.py killed 'user, login'  the scenarios whose name has one of these words
    tests/machines/run.py --shell 'COMMAND'     one command, as root, in the checkout; its output and exit status

Needs Linux with qemu-system-x86_64, and the first run also root and debootstrap.
"""

import argparse
import json
import shlex
import sys
from pathlib import Path

from machine import Job, MachineFailed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--checkout", type=Path, default=Path(__file__).resolve().parents[2], metavar="DIR")
    parser.add_argument("--seconds", type=float, default=7200, help="time limit, from power on; default: two hours")
    parser.add_argument("--shell", metavar="COMMAND")
    options = parser.parse_args()
    try:
        if options.shell:
            job = Job(options.shell, options.checkout, options.seconds)
            for line in job:
                print(line, end="", flush=True)
            return job.status or 0
        return show(
            Job(f"python3 machines/scenarios.py {shlex.join(options.words)}", options.checkout, options.seconds)
        )
    except MachineFailed as error:
        sys.exit(str(error))


def show(job: Job) -> int:
    """Print a line for each scenario, and what was seen; return an exit status."""
    n_scenarios = n_failed = 0
    for line in job:
        try:
            found = json.loads(line)
        except ValueError:  # what the guest prints besides
            print(line, end="")
            continue
        n_scenarios += 1
        n_failed += bool(found["wrong"])
        print(f"{'FAILS' if found['wrong'] else 'holds'}  {found['name']}  ({found['seconds']} s)", flush=True)
        for mark, seen in (("!", found["wrong"]), (" ", found["seen"])):
            for each in seen:
                print(f"     {mark} {each}", flush=True)
    print(f"{n_scenarios - n_failed} of {n_scenarios} scenarios hold")
    return 1 if n_failed or not n_scenarios or job.status else 0


if __name__ == "__main__":
    sys.exit(main())
