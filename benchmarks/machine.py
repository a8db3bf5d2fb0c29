"""A description of this machine, for result files."""

import datetime
import os
import platform


def describe() -> str:
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.machine())
    cores = len(os.sched_getaffinity(0))
    return (
        f"{cores} cores of {model}, Linux {platform.release().split('-')[0]},"
        f" Python {platform.python_version()}, {datetime.date.today()}"
    )
