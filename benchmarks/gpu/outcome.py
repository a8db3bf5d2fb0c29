"""How a check tells what it found."""

import json
import sys
from importlib.util import find_spec
from typing import Any, NoReturn

from sandbox.extras import install_command

MARK = "outcome: "
SKIPPED = 77  # exit status, as in automake


def print_figures(**figures: Any) -> None:
    """Print the figures of a check that has passed."""
    print(MARK + json.dumps(figures), flush=True)


def skip(reason: str) -> NoReturn:
    """End the process: this check cannot run here."""
    print(MARK + json.dumps({"reason": reason}), flush=True)
    sys.exit(SKIPPED)


def need_gpus(number: int) -> None:
    import torch

    if torch.cuda.device_count() < number:
        skip(f"it needs {number} GPUs, and there are {torch.cuda.device_count()}")


def need_vllm() -> None:
    if find_spec("vllm") is None:
        skip(f"vLLM is not installed; type: {install_command('train')}")
