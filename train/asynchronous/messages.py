"""What workers and the controller say to each other, the same in one process and over HTTP (as msgpack).

A worker asks; the controller never calls a worker. All versions are numbers of weights, counted from 0. Token ids and
log-probabilities are sent and stored as 4 bytes each, little-endian.
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
    """Return token ids as unsigned integers. Raises OverflowError for an id that is negative or needs more bits."""
    return _little_endian(array("I", tokens)).tobytes()


def unpack_tokens(data: bytes) -> "array[int]":
    """Raises ValueError if the bytes are not a multiple of four."""
    tokens = array("I")
    tokens.frombytes(data)
    return _little_endian(tokens)


def pack_logprobs(logprobs: Iterable[float]) -> bytes:
    """Return log-probabilities as floats of single precision, which is what engines compute."""
    return _little_endian(array("f", logprobs)).tobytes()


def unpack_logprobs(data: bytes) -> "array[float]":
    """Raises ValueError if the bytes are not a multiple of four."""
    logprobs = array("f")
    logprobs.frombytes(data)
    return _little_endian(logprobs)


def _little_endian(numbers: "array[_Number]") -> "array[_Number]":
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


NAME_PATTERN = r"\A[\w.:@-]{1,200}\Z"  # of workers; it is printed in logs and messages
WorkerName = Annotated[str, Meta(pattern=NAME_PATTERN)]
LeaseKey = tuple[int, int]  # number and attempt of a group
VersionSpan = tuple[int, int, int]  # version of the weights, and the first token and the end of what was drawn with it


# "soft": honest nodes can fail like this, too; "hard": only cheats do; "unknown": the fault is on the verifier's side.
Outcome = Literal["accepted", "soft", "hard", "unknown"]

# Nodes are told the word, never how far they were from a bar. From cheap checks to dear ones:
Reason = Literal[
    "",  # accepted
    "expired",  # nothing came before the lease ran out
    "late",  # it came after its weights were given up
    "freed",  # its node left, was suspended, or never heard of the lease
    "restarted",  # the coordinator was, while the lease was open
    "different",  # a second file for the same lease
    "size",  # of the file
    "digest",  # the file is not what was announced
    "file",  # it does not hold a completion for each seed of the lease
    "version",  # sampled with another version than that of the lease
    "tokens",  # an id that the vocabulary does not have
    "length",  # too many tokens, or none
    "logprobs",  # log-probabilities that cannot be any
    "copies",  # two answers that are equal beyond the first tokens
    "malformed",  # commitments
    "termination",  # it ends without an end
    "commitments",  # hidden states are not those of the model
    "replay",  # tokens are not those that the seeds give
    "probabilities",  # log-probabilities are not those of the model
    "unlikely",  # tokens are not distributed as the model draws them
    "banned",  # the node was, for another lease or by the operator
    "crashed",  # the verifier
    "no weights",  # the verifier does not have the version any more
]


class LeaseVerdict(Struct, frozen=True):
    """What became of a lease whose answers others verify (train/swarm)."""

    outcome: Outcome
    reason: Reason = ""


ACCEPTED = LeaseVerdict("accepted")


class Lease(Struct, frozen=True):
    """One group to sample: all answers to one prompt.

    group               number of the group, counted from 0 in the order of asking; evaluation counts separately, from
                        -1 down
    attempt             how often the group was asked before; its prompt and seeds stay the same
    version             the birth of the group: the version that the worker had loaded when it asked
    prompt              ids of the prompt's tokens
    seeds               one for each answer
    expires_in_seconds  the lease runs out after this time without an answer, or a beat that names it while tokens are
                        drawn
    """

    group: int
    attempt: int
    version: int
    prompt: tuple[int, ...]
    seeds: tuple[int, ...]
    sampling_params: SamplingParams = field(name="draw")
    expires_in_seconds: float = field(name="seconds")


class LeaseRequest(Struct, frozen=True):
    """A worker asks for groups.

    loaded_version  version of the weights that it samples with
    slots           number of further answers that it can draw at once
    can_evaluate    whether it may get samples of evaluations, too
    """

    worker: WorkerName
    loaded_version: int = field(name="loaded")
    slots: int
    can_evaluate: bool = field(name="evaluates", default=True)


class LeaseResponse(Struct, frozen=True):
    """The reply: groups to sample. `wait_seconds` says when to ask again, `run_ended` that the run has ended."""

    leases: tuple[Lease, ...] = ()
    wait_seconds: float = 0.0
    run_ended: bool = field(name="over", default=False)


class SampleResult(Struct, frozen=True, omit_defaults=True):
    """One finished answer. (group, number, attempt) identifies it, so that it can be sent again.

    tokens         token ids, 4 bytes each, little-endian and unsigned
    logprobs       their log-probabilities after temperature, as 4-byte floats, little-endian; empty in evaluation
    spans          versions of the weights that drew the tokens, without gaps, versions ascending
    finish_reason  "refused" if the engine cannot take the prompt; then there are no tokens

    commitments    to the hidden states behind the tokens, if the lease asks for answers that others can check
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
    """Finished answers of a worker."""

    worker: WorkerName
    answers: tuple[SampleResult, ...]


# "taken"; "again": it was there already, which is fine; "stale": the group was given to another worker, or given up;
# "broken": invalid; the controller logs why and dispatches the group to another worker.
ResultStatus = Literal["taken", "again", "stale", "broken"]


class Heartbeat(Struct, frozen=True):
    """A sign of life.

    loaded_version     version of the weights that it samples with
    running_leases     (group, attempt) of the leases it works on, until all their answers are handed over
    tokens_per_second  tokens drawn, over the last seconds
    cache_use          share of the engine's cache that is in use
    busy_share         share of the last seconds in which it drew tokens
    """

    worker: WorkerName
    loaded_version: int = field(name="loaded")
    running_leases: tuple[LeaseKey, ...] = field(name="running")
    tokens_per_second: float = 0.0
    cache_use: float = 0.0
    busy_share: float = field(name="busy", default=0.0)


class HeartbeatResponse(Struct, frozen=True, omit_defaults=True):
    """The reply: (group, attempt) of the leases to drop, and whether the run has ended.

    verdicts  on leases whose answers others verify, since the last beat
    """

    leases_to_drop: tuple[LeaseKey, ...] = field(name="drop", default=())
    run_ended: bool = field(name="over", default=False)
    verdicts: tuple[tuple[LeaseKey, LeaseVerdict], ...] = ()


class ReleaseRequest(Struct, frozen=True):
    """A worker ends, and gives all leases back; or it goes on, and gives back only those of some groups.

    leases  (group, attempt) of these; None: all, and the worker ends
    """

    worker: WorkerName
    leases: tuple[LeaseKey, ...] | None = field(name="only", default=None)


class ControllerAPI(Protocol):
    """The controller as a worker sees it, in the same process or over HTTP.

    Every call can be repeated. Raises ControllerUnreachable if the controller cannot be reached.
    """

    def request_leases(self, request: LeaseRequest) -> LeaseResponse:
        """Ask for groups."""

    def submit_results(self, request: SubmitRequest) -> list[ResultStatus]:
        """Hand over finished answers; one receipt for each."""

    def heartbeat(self, beat: Heartbeat) -> HeartbeatResponse:
        """Say that the worker lives."""

    def wait_for_weights(self, known_version: int, wait_seconds: float) -> WeightManifest | None:
        """Return the newest manifest if its version is not `known_version`, waiting up to so many seconds; else None.

        The version is lower than `known_version` if the run was resumed at an earlier step: the worker has to load it.
        """

    def release(self, request: ReleaseRequest) -> None:
        """Give leases back; their groups are asked again, with the same seeds."""
