"""Let a confined process parse a file."""

import logging
import os
import subprocess
import sys
from pathlib import Path
from signal import SIGKILL

from sandbox.errors import BackendUnavailable, ExecutionLost
from train.swarm.files.parse_result import READY_MARKER

log = logging.getLogger(__name__)

_HOME = str(Path(__file__).parents[3])
_MAX_SECONDS = 30.0  # of wall time: the limit that counts is that of processor time
_CODE = "import sys; sys.path[:] = sys.argv[3:]; from train.swarm.files.parser_process import main; main(sys.argv[1:3])"
_ENVIRONMENT = {  # all of it; libraries must not start threads, and Arrow's own memory pool reserves much
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "LC_ALL": "C.UTF-8",
}


def run_parser(content: bytes, n_rows: int, max_bytes: int) -> bytes | None:
    """Return what the confined process says about a file, or None if the file has ended it.

    n_rows     the rows that there must be
    max_bytes  limit of the content in plain form

    Raises ExecutionLost or BackendUnavailable if nothing is known about the file, because the process could not be
    started, or was killed from outside.
    """
    status, output, errors = _run(content, [str(n_rows), str(max_bytes)])
    if not output.startswith(READY_MARKER):
        raise BackendUnavailable(f"the process that reads rollout files does not start: {errors}")
    if status == -SIGKILL:
        raise ExecutionLost("the process that reads rollout files was killed from outside; is there too little memory?")
    if status != 0:
        log.info("a rollout file has ended the process that read it: status %d", status)
        return None
    return output[len(READY_MARKER) :]


def _run(content: bytes, arguments: list[str]) -> tuple[int, bytes, str]:
    """Return exit status, output and errors. The process writes to memory, whose size its limits bound."""
    paths = [os.path.abspath(path or ".") for path in (*sys.path, _HOME)]
    command = [sys.executable, "-I", "-S", "-B", "-c", _CODE, *arguments, *paths]
    streams: list[int] = []
    try:
        streams += [os.memfd_create(name) for name in ("content", "found", "errors")]
        os.write(streams[0], content)
        os.lseek(streams[0], 0, os.SEEK_SET)
        process = subprocess.Popen(
            command, stdin=streams[0], stdout=streams[1], stderr=streams[2],
            env=_ENVIRONMENT, cwd="/", start_new_session=True,
        )  # fmt: skip
        try:
            status = process.wait(_MAX_SECONDS)
        except subprocess.TimeoutExpired:
            raise ExecutionLost(f"a rollout file was not read within {_MAX_SECONDS:.0f} s") from None
        finally:
            process.kill()
            process.wait()
        output, errors = (os.pread(stream, os.fstat(stream).st_size, 0) for stream in streams[1:])
    except OSError as error:
        raise BackendUnavailable(f"the process that reads rollout files cannot be started: {error}") from error
    finally:
        for stream in streams:
            os.close(stream)
    return status, output, errors[-500:].decode(errors="replace")
