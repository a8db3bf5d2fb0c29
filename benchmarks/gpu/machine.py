"""GPU, versions and free memory of the machine, and the model of all checks."""

import shutil
import subprocess

import psutil
import torch

from benchmarks.gpu.setup import CheckEnvironment, make_model, time_call


def main(check: CheckEnvironment) -> None:
    host, disk = psutil.virtual_memory().available / 2**30, shutil.disk_usage(check.folder).free / 2**30
    if check.on_cpu:
        check.report(gpu=None, driver=None, free_share=None, host_free_gib=None, disk_free_gib=None)
    else:
        free, total = torch.cuda.mem_get_info()
        check.report(gpu=torch.cuda.get_device_name(), driver=_read_driver_version(), free_share=free / total)
        check.report(host_free_gib=host, disk_free_gib=disk)
    check.report(torch=torch.__version__)
    seconds, _ = time_call(lambda: make_model(check.model, check.sizes.shape, "cpu" if check.on_cpu else "cuda"))
    check.report(model_seconds=seconds)
    with check.catch_errors():
        import vllm

        check.report(vllm=vllm.__version__)
        settings = vllm.EngineArgs(model=str(check.model), max_model_len=1024).create_engine_config()
        check.report(runner="V2" if settings.use_v2_model_runner else "V1")


def _read_driver_version() -> str:
    """Return the versions of the driver and of torch's CUDA."""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        version = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True).stdout.split()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        version = "unknown"
    return f"{version}, CUDA {torch.version.cuda}"
