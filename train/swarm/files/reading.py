"""Read a rollout file that nobody trusts, by a process of its own."""

import logging
import os
import subprocess
import sys
from array import array
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL

import msgspec

from sandbox.errors import BackendUnavailable, ExecutionLost
from train.swarm.calls import SwarmLease
from train.swarm.files.found import READY, Found, FoundRow, Unreadable
from train.swarm.files.rows import FINISHES, RolloutFile, Row
from train.swarm.files.sanity import fault
from train.swarm.files.sizes import most_bytes
from train.swarm.settings import SwarmSettings
from train.swarm.verdict import Verdict

log = logging.getLogger(__name__)

_HOME = str(Path(__file__).parents[3])
_MOST_SECONDS = 30.0  # of wall time: the limit that counts is that of processor time
_CODE = "import sys; sys.path[:] = sys.argv[3:]; from train.swarm.files import child; child.main(sys.argv[1:3])"
_ENVIRONMENT = {  # all of it; libraries must not start threads, and Arrow's own memory pool reserves much
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "LC_ALL": "C.UTF-8",
}
_UNREADABLE = Verdict("hard", "file")
_decoder: msgspec.msgpack.Decoder[Found | Unreadable] = msgspec.msgpack.Decoder(Found | Unreadable)


def read(content: bytes, lease: SwarmLease, settings: SwarmSettings) -> RolloutFile | Verdict:
    """Return the answers if the file can be read and answers the lease; else the verdict on it.

    Raises ExecutionLost or BackendUnavailable if nothing is known about the file, because the process that parses it
    could not be started, or was killed from outside.
    """
    most = most_bytes(lease.lease)
    if len(content) > most:
        return Verdict("hard", "size")
    file = _parse(content, lease, most)
    if isinstance(file, Verdict):
        return file
    return fault(file, lease.lease, settings) or file


def _parse(content: bytes, lease: SwarmLease, most: int) -> RolloutFile | Verdict:
    end = _run(content, len(lease.lease.seeds), most)
    if not end.output.startswith(READY):
        raise BackendUnavailable(f"the process that reads rollout files does not start: {end.errors}")
    if end.status == -SIGKILL:
        raise ExecutionLost("the process that reads rollout files was killed from outside; is there too little memory?")
    if end.status != 0:
        log.info("a rollout file has ended the process that read it: status %d", end.status)
        return _UNREADABLE
    try:
        found = _decoder.decode(memoryview(end.output)[len(READY) :])
        if isinstance(found, Unreadable):
            log.info("a rollout file is refused: %r", found.reason)
            return _UNREADABLE
        return _answers(found, lease)
    except ValueError as error:  # also those of msgspec
        log.info("a rollout file makes no sense: %s", error)
        return _UNREADABLE


@dataclass(frozen=True, slots=True)
class _End:
    status: int
    output: bytes
    errors: str


def _run(content: bytes, n_rows: int, most: int) -> _End:
    """Let a confined process read the content. It writes to memory, whose size its limits bound."""
    paths = [os.path.abspath(path or ".") for path in (*sys.path, _HOME)]
    command = [sys.executable, "-I", "-S", "-B", "-c", _CODE, str(n_rows), str(most), *paths]
    streams = [os.memfd_create(name) for name in ("content", "found", "errors")]
    try:
        os.write(streams[0], content)
        os.lseek(streams[0], 0, os.SEEK_SET)
        process = subprocess.Popen(
            command, stdin=streams[0], stdout=streams[1], stderr=streams[2],
            env=_ENVIRONMENT, cwd="/", start_new_session=True,
        )  # fmt: skip
        try:
            status = process.wait(_MOST_SECONDS)
        except subprocess.TimeoutExpired:
            raise ExecutionLost(f"a rollout file was not read within {_MOST_SECONDS:.0f} s") from None
        finally:
            process.kill()
            process.wait()
        output, errors = (os.pread(stream, os.fstat(stream).st_size, 0) for stream in streams[1:])
    except OSError as error:
        raise BackendUnavailable(f"the process that reads rollout files cannot be started: {error}") from error
    finally:
        for stream in streams:
            os.close(stream)
    return _End(status, output, errors[-500:].decode(errors="replace"))


def _answers(found: Found, lease: SwarmLease) -> RolloutFile:
    """Raises ValueError if these are not the rows of this lease, in the order of their numbers."""
    if found.lease != lease.id:
        raise ValueError("it answers another lease")
    for number, row in enumerate(found.rows):
        if row.lease != lease.id or row.group != lease.lease.group or row.number != number:
            raise ValueError(f"row {number} answers something else")
    if len(found.rows) != len(lease.lease.seeds):
        raise ValueError("rows are missing")
    return RolloutFile(tuple(map(_row, found.rows)), found.node, found.lease, found.engine)


def _row(row: FoundRow) -> Row:
    if not 0 <= row.finish < len(FINISHES):
        raise ValueError(f"{row.finish} is no way to finish")
    return Row(
        row.number, row.version, row.seed, _ids(row.prompt_ids), _ids(row.token_ids),
        tuple(array("f", row.logprobs)), FINISHES[row.finish], row.commitments,
    )  # fmt: skip


def _ids(data: bytes) -> tuple[int, ...]:
    return tuple(array("I", data))
