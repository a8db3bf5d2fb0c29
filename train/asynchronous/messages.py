"""Messages between workers and the controller, in one process or over HTTP (as msgpack).

Only workers make calls. Versions number the weights, from 0. Token ids and log-probabilities are sent and stored as 4
bytes each, little-endian.
"""

import sys
from array import array
from collections.abc import Iterable
from typing import Annotated, Literal, Protocol, TypeVar

from msgspec import Meta, Struct, field

from train.sampling.protocol import SamplingParams
from train.weights.manifest import WeightManifest

MSGPACK = "application/msgpack"  # content type of messages
RUN_HEADER = "x-curate-run"  # name of the run that a worker belongs to

_Number = TypeVar("_Number", int, float)


def pack_tokens(tokens: Iterable[int]) -> bytes:
    """Pack token ids as unsigned integers. Raises OverflowError for a negative or too large id."""
    return _convert_to_little_endian(array("I", tokens)).tobytes()


def unpack_tokens(data: bytes) -> "array[int]":
    """Unpack token ids. Raises ValueError if the bytes are not a multiple of four."""
    tokens = array("I")
    tokens.frombytes(data)
    return _convert_to_little_endian(tokens)


def pack_logprobs(logprobs: Iterable[float]) -> bytes:
    """Pack log-probabilities as single-precision floats, the precision of engines."""
    return _convert_to_little_endian(array("f", logprobs)).tobytes()


def unpack_logprobs(data: bytes) -> "array[float]":
    """Unpack log-probabilities. Raises ValueError if the bytes are not a multiple of four."""
    logprobs = array("f")
    logprobs.frombytes(data)
    return _convert_to_little_endian(logprobs)


def _convert_to_little_endian(numbers: "array[_Number]") -> "array[_Number]":
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


NAME_PATTERN = r"\A[\w.:@-]{1,200}\Z"
WorkerName = Annotated[str, Meta(pattern=NAME_PATTERN)]
LeaseKey = tuple[int, int]  # number and attempt of a group
VersionSpan = tuple[int, int, int]  # (version, index of its first token, index after its last)


# "soft": an honest node can have this fault; "hard": only a dishonest node has it; "unknown": the node is not at fault.
Outcome = Literal["accepted", "soft", "hard", "unknown"]

# Reasons, in the order of the checks. The coordinator sends nodes the reason, but never the distance from a threshold.
Reason = Literal[
    "",  # accepted
    "expired",  # no file arrived before the lease expired
    "late",  # the file arrived after its version was dropped
    "freed",  # the node left, was suspended, or did not receive the lease
    "restarted",  # the coordinator restarted while the lease was open
    "different",  # a second, different file for the same lease
    "size",  # the file is too large
    "digest",  # the file does not have the announced digest
    "file",  # the file lacks a completion for a seed of the lease
    "version",  # sampled with another version than the lease's
    "tokens",  # token ids outside the vocabulary
    "length",  # too many tokens, or none
    "logprobs",  # invalid log-probabilities
    "copies",  # two completions are equal beyond the first tokens
    "malformed",  # malformed commitments
    "termination",  # a completion ends without an end token or the length limit
    "commitments",  # hidden states differ from the model's
    "replay",  # tokens differ from those that the seeds reproduce
    "probabilities",  # log-probabilities differ from the model's
    "unlikely",  # tokens do not follow the model's distribution
    "banned",  # the node was banned, for another lease or by the operator
    "crashed",  # the verifier crashed on the file
    "no weights",  # the verifier no longer has the version
]


class LeaseVerdict(Struct, frozen=True):
    """The verdict on a lease of an untrusted node, whose completions verifiers recompute (train/swarm)."""

    outcome: Outcome
    reason: Reason = ""


ACCEPTED = LeaseVerdict("accepted")


class Lease(Struct, frozen=True):
    """One group to sample: all completions of one prompt.

    group               number of the group, from 0 in the order of dispatch; evaluation counts from -1 down
    attempt             number of earlier dispatches of the group, which had the same prompt and seeds
    version             the group's start version: the version that the worker had loaded at its request
    prompt              the prompt's token ids
    seeds               one for each completion
    expires_in_seconds  time until the lease expires; restarted by each completion, and by each heartbeat that names the
                        lease while the worker samples
    """

    group: int
    attempt: int
    version: int
    prompt: tuple[int, ...]
    seeds: tuple[int, ...]
    sampling_params: SamplingParams = field(name="draw")
    expires_in_seconds: float = field(name="seconds")


class LeaseRequest(Struct, frozen=True):
    """A worker's request for groups.

    slots         free slots for completions
    can_evaluate  whether it accepts samples of evaluations
    """

    worker: WorkerName
    loaded_version: int = field(name="loaded")
    slots: int
    can_evaluate: bool = field(name="evaluates", default=True)


class LeaseResponse(Struct, frozen=True):
    """The reply to LeaseRequest. wait_seconds: pause before the next request."""

    leases: tuple[Lease, ...] = ()
    wait_seconds: float = 0.0
    run_ended: bool = field(name="over", default=False)


class SampleResult(Struct, frozen=True, omit_defaults=True):
    """One finished completion. Resubmission is idempotent, because (group, number, attempt) identifies it.

    number         number of the sample in its group
    tokens         token ids, 4 bytes each, little-endian and unsigned
    logprobs       their log-probabilities after temperature, as 4-byte floats, little-endian; empty in evaluation
    spans          versions that sampled the tokens, ascending and without gaps
    finish_reason  "refused" if the engine cannot take the prompt; then there are no tokens
    commitments    commitments to the hidden states (train/sampling/commitment.py); empty without verifiers
    """

    group: int
    number: int
    attempt: int
    tokens: bytes
    logprobs: bytes
    spans: tuple[VersionSpan, ...]
    finish_reason: Literal["stop", "length", "refused"] = field(name="finish")
    commitments: bytes = b""


class SubmitRequest(Struct, frozen=True):
    """Finished completions of a worker."""

    worker: WorkerName
    results: tuple[SampleResult, ...] = field(name="answers")


# "taken": accepted; "again": a duplicate; "stale": the lease has ended, or the group was rejected; "broken": invalid;
# the controller logs why, and dispatches the group again.
ResultStatus = Literal["taken", "again", "stale", "broken"]


class Heartbeat(Struct, frozen=True):
    """A worker's heartbeat.

    running_leases     leases with unsubmitted completions
    tokens_per_second  tokens sampled per second since the last heartbeat
    cache_use          used share of the engine's KV cache
    busy_share         share of the time since then in which the engine sampled
    """

    worker: WorkerName
    loaded_version: int = field(name="loaded")
    running_leases: tuple[LeaseKey, ...] = field(name="running")
    tokens_per_second: float = 0.0
    cache_use: float = 0.0
    busy_share: float = field(name="busy", default=0.0)


class HeartbeatResponse(Struct, frozen=True, omit_defaults=True):
    """The reply to Heartbeat. verdicts: lease verdicts since the last heartbeat."""

    leases_to_drop: tuple[LeaseKey, ...] = field(name="drop", default=())
    run_ended: bool = field(name="over", default=False)
    verdicts: tuple[tuple[LeaseKey, LeaseVerdict], ...] = ()


class ReleaseRequest(Struct, frozen=True):
    """A worker's release of leases. leases: None for all, when the worker exits."""

    worker: WorkerName
    leases: tuple[LeaseKey, ...] | None = field(name="only", default=None)


class ControllerAPI(Protocol):
    """The controller's interface for workers, in the same process or over HTTP.

    Every call is idempotent, and raises ControllerUnreachable if the controller is unreachable.
    """

    def request_leases(self, request: LeaseRequest) -> LeaseResponse:
        """Lease groups to sample."""

    def submit_results(self, request: SubmitRequest) -> list[ResultStatus]:
        """Submit finished completions, and return the status of each."""

    def heartbeat(self, beat: Heartbeat) -> HeartbeatResponse:
        """Renew the worker's leases, and return the leases to drop."""

    def wait_for_weights(self, known_version: int, wait_seconds: float) -> WeightManifest | None:
        """Wait up to `wait_seconds` for a version other than `known_version`. Return its manifest; None on timeout.

        A worker must also load a lower version, which is the newest after the run resumed at an earlier step.
        """

    def release(self, request: ReleaseRequest) -> None:
        """Release leases; their groups are dispatched again, with the same seeds."""
