"""The messages to a coordinator and their replies: msgpack, signed on both sides (requests.py).

    POST /join           JoinRequest -> JoinResponse              with an invite; the node is on probation
    POST /work /answers /beat /leave                              the calls of train/asynchronous/messages.py
    POST /step           None -> LatestVersion                    as in broadcast/manifest.py
    POST /job            None -> VerificationJobResponse          for verifiers: a file to verify
    POST /file/GROUP     None -> the completions of a lease       for verifiers
    POST /verdict/GROUP  VerificationResult -> None               for verifiers
    POST /ban            Ban -> None                              for the key of the run
    POST /status         None -> SwarmStatus                      for the key of the run

GROUP is the number of a lease. A worker's name must be the public key of the sender, in hexadecimal.
"""

from msgspec import Struct, field

from train.asynchronous.messages import Lease, LeaseVerdict, Reason, SampleResult


class JoinRequest(Struct, frozen=True):
    """The request of a node or verifier to join, with the text of its invite.

    engine    kind and version, such as "vllm 0.32.0 cpu"; empty to only request the settings, which specify the engine
    hardware  description for the operator
    """

    invite: bytes
    engine: str
    hardware: str = ""


class JoinResponse(Struct, frozen=True):
    """The reply. settings: SwarmSettings in msgpack, signed with the key of the run."""

    settings: bytes


class VerificationJob(Struct, frozen=True):
    """A file to verify: its lease, its node's engine, its length and its digest."""

    lease: Lease
    engine: str
    n_bytes: int
    blake3: bytes


class VerificationJobResponse(Struct, frozen=True):
    """The reply to a verifier: a file, if one waits, and whether the run has ended."""

    job: VerificationJob | None = None
    run_ended: bool = field(name="over", default=False)


class VerificationResult(Struct, frozen=True):
    """The verdict on a file.

    results  if accepted: all results in order, with the verifier's own log-probabilities, never the node's
    figures  measurements for the operator; never sent to nodes
    """

    verdict: LeaseVerdict
    results: tuple[SampleResult, ...] = field(name="answers", default=())
    figures: dict[str, float] = {}


class Ban(Struct, frozen=True):
    node: bytes
    reason: str = "operator"


class NodeStatus(Struct, frozen=True):
    node: bytes
    state: str
    engine: str
    hardware: str
    loaded_version: int = field(name="loaded")
    seen_seconds_ago: float
    tokens_per_second: float
    leases: int
    n_granted: int = field(name="given")
    accepted: int
    reputation: float
    earned: int
    stake: int
    reasons: dict[Reason, int]


class SwarmStatus(Struct, frozen=True):
    """The status of a swarm for the operator.

    lease_counts    leases by state
    verdict_counts  verdicts by reason; "" counts accepted ones
    relays          version that each URL names; -1 if unreachable
    """

    run: str
    version: int
    ledger_head: bytes = field(name="ledger")
    n_entries: int
    nodes: tuple[NodeStatus, ...]
    lease_counts: dict[str, int] = field(name="leases")
    verdict_counts: dict[Reason, int] = field(name="verdicts")
    relays: dict[str, int]
    verifiers: int
