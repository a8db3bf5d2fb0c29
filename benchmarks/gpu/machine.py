"""GPU, versions and free memory of the machine, and the model of all checks."""

import shutil
import subprocess

import psutil
import torch

from benchmarks.gpu.setup import Work, make_model, time_call


def main(work: Work) -> None:
    host, disk = psutil.virtual_memory().available / 2**30, shutil.disk_usage(work.folder).free / 2**30
    if work.on_cpu:
        work.report(gpu=None, driver=None, free_share=None, host_free_gib=None, disk_free_gib=None)
    else:
        free, total = torch.cuda.mem_get_info()
        work.report(gpu=torch.cuda.get_device_name(), driver=_read_driver_version(), free_share=free / total)
        work.report(host_free_gib=host, disk_free_gib=disk)
    work.report(torch=torch.__version__)
    seconds, _ = time_call(lambda: make_model(work.model, work.sizes.shape, "cpu" if work.on_cpu else "cuda"))
    work.report(model_seconds=seconds)
    with work.catch_errors():
        import vllm

        work.report(vllm=vllm.__version__)
        settings = vllm.EngineArgs(model=str(work.model), max_model_len=1024).create_engine_config()
        work.report(runner="V2" if settings.use_v2_model_runner else "V1")


def _read_driver_version() -> str:
    """Return the versions of the driver and of torch's CUDA."""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        version = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True).stdout.split()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        version = "unknown"
    return f"{version}, CUDA {torch.version.cuda}"
