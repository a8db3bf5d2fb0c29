#!/usr/bin/env python3
"""Check the sandbox on a machine with systemd and cgroup v2.

    tests/machines/run.py                                        all scenarios, as a table; exit 1 if one does not hold
    tests/machines/run.py --shell 'systemd-run --scope ...'      one command, as root, in the checkout

Needs Linux with qemu-system-x86_64, and for the first run root and debootstrap.
"""

import argparse
import sys
from pathlib import Path

from machine import Job, MachineFailed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkout", type=Path, default=Path(__file__).resolve().parents[2], metavar="DIR")
    parser.add_argument("--seconds", type=float, default=3600, help="time limit, from power on; default: an hour")
    parser.add_argument("--shell", metavar="COMMAND", help="run this shell command instead of the scenarios")
    options = parser.parse_args()
    if options.shell:
        job = Job(options.shell, options.checkout, options.seconds)
        try:
            for line in job:
                print(line, end="", flush=True)
        except MachineFailed as error:
            sys.exit(str(error))
        assert job.status is not None
        return job.status
    return 0


if __name__ == "__main__":
    sys.exit(main())
