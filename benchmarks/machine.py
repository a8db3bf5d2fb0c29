"""A description of this machine, for result files, and the environment of vLLM on its processors."""

import datetime
import os
import platform

# vLLM in the calling process, with a GiB of cache and without access to the Hub.
VLLM_ON_CPU = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "HF_HUB_OFFLINE": "1",
}


def describe() -> str:
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.machine())
    cores = len(os.sched_getaffinity(0))
    return (
        f"{cores} cores of {model}, Linux {platform.release().split('-')[0]},"
        f" Python {platform.python_version()}, {datetime.date.today()}"
    )
