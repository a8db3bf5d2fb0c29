"""What the reference of a task returns: computed in the sandbox once, and kept in the user's cache.

The files are named by a digest of all that they depend on, so for changed data, or with another version of Python or of
the program in the sandbox, they are computed anew.
"""

import gzip
import hashlib
import json
import logging
import os
import platform
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from curate.reading.values import shorten
from sandbox import Sandbox, Verdict
from sandbox.concurrency.single_flight import SingleFlightCache
from train.evaluation.judges import sandbox_runner
from train.evaluation.judges.call_run import CallOutput, run_calls
from train.evaluation.judges.judge import NoVerdictError

log = logging.getLogger(__name__)

_MAX_SECONDS = 600.0  # CPU time of a reference on all inputs; the slowest takes some seconds
_CACHE_SIZE = 64  # tasks whose expected outputs stay in memory


@dataclass(frozen=True, slots=True)
class Reference:
    """A program that is right, and the inputs on which it shows what is right.

    inputs   lists of arguments, each as the JSON of its encoding (see sandbox_runner.py)
    """

    program: str
    entry_point: str
    inputs: tuple[str, ...]

    @property
    def digest(self) -> str:
        """A digest of the program and its inputs."""
        return _sha256(json.dumps([self.program, self.entry_point, *self.inputs]))


_computed: SingleFlightCache[tuple[CallOutput, ...]] = SingleFlightCache(_CACHE_SIZE)


def expected_outputs(reference: Reference, digest: str, sandbox: Sandbox) -> tuple[CallOutput, ...]:
    """Return the outputs of the reference. Raises SandboxError, and NoVerdictError if the reference fails.

    digest   `reference.digest`, which takes time to compute
    """
    return _computed.get(digest, lambda: _found_or_computed(reference, digest, sandbox), lambda outputs: True)


def _found_or_computed(reference: Reference, digest: str, sandbox: Sandbox) -> tuple[CallOutput, ...]:
    path = _folder() / f"{digest[:32]}-{_version()}.json.gz"
    outputs = _read(path, len(reference.inputs))
    if outputs is None:
        outputs = _compute(reference, sandbox)
        _write(path, outputs)
    return outputs


def _compute(reference: Reference, sandbox: Sandbox) -> tuple[CallOutput, ...]:
    calls = run_calls(
        [reference.program],
        reference.entry_point,
        reference.inputs,
        [0.0] * len(reference.inputs),
        sandbox,
        max_seconds=_MAX_SECONDS,
    )
    if calls.verdict is not Verdict.ACCEPTED:
        raise NoVerdictError(f"its reference fails on input {len(calls.outputs)}: {calls.verdict.value}")
    return calls.outputs


@cache
def _version() -> str:
    """Return a digest of what expected outputs depend on besides their reference."""
    return _sha256(Path(sandbox_runner.__file__).read_text(encoding="utf-8") + platform.python_version())[:12]


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "curate" / "expected-outputs"


def _read(path: Path, n_inputs: int) -> tuple[CallOutput, ...] | None:
    """Return the outputs in a file; None if there is no such file, or if it is damaged."""
    try:
        with gzip.open(path, "rt", encoding="ascii") as file:
            outputs = tuple(CallOutput(text, large, seconds) for text, large, seconds in json.load(file))
    except (OSError, EOFError, ValueError, TypeError):
        return None
    return outputs if len(outputs) == n_inputs else None


def _write(path: Path, outputs: Sequence[CallOutput]) -> None:
    """Write the outputs, whole or not at all. Without a cache, they are computed again next time."""
    content = json.dumps([[output.text, output.is_digest, output.cpu_seconds] for output in outputs])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(gzip.compress(content.encode("ascii"), compresslevel=1))
        os.replace(file.name, path)
    except OSError as error:
        log.warning("expected outputs are not kept in %s: %s", path.parent, shorten(error))
