"""What is said to a coordinator beside the calls of workers, and what it answers: msgpack, signed on both sides.

    POST /join           JoinRequest -> JoinResponse              with an invite; the node is on probation
    POST /work /answers /beat /leave                              the calls of train/asynchronous/messages.py
    POST /step           None -> LatestVersion                    as in broadcast/manifest.py
    POST /job            None -> VerificationJobResponse          for verifiers: answers to verify
    POST /file/GROUP     None -> the answers to a lease           for verifiers
    POST /verdict/GROUP  VerificationResult -> None               for verifiers
    POST /ban            Ban -> None                              for the key of the run
    POST /status         None -> SwarmStatus                      for the key of the run

GROUP is the number of a lease. Who speaks is known from the signature: a worker's name is its public key in
hexadecimal, and no other is taken.
"""

from msgspec import Struct, field

from train.asynchronous.messages import Lease, LeaseVerdict, Reason, SampleResult


class JoinRequest(Struct, frozen=True):
    """A node comes, with an invite as it was written.

    engine    "vllm" or "transformers" and its version, such as "vllm 0.32.0 cpu"; empty: the node is not admitted yet,
              and wants to know from the settings which engine it has to start
    hardware  in words, for the operator
    """

    invite: bytes
    engine: str
    hardware: str = ""


class JoinResponse(Struct, frozen=True):
    """The reply. `settings` are SwarmSettings in msgpack, sealed with the key of the run."""

    settings: bytes


class VerificationJob(Struct, frozen=True):
    """A file to verify: the lease that it answers, the engine that its node named, and its length and digest."""

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

    answers  if it is accepted: all of them, in the order of their numbers, with the verifier's own log-probabilities;
             those of the node are never used
    figures  what was measured, for the operator: nodes are not told
    """

    verdict: LeaseVerdict
    answers: tuple[SampleResult, ...] = ()
    figures: dict[str, float] = {}


class Ban(Struct, frozen=True):
    """The operator bans a node."""

    node: bytes
    reason: str = "operator"


class NodeStatus(Struct, frozen=True):
    """A node, as the operator sees it."""

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
    """A swarm, as the operator sees it.

    lease_counts    how many are in which state
    verdict_counts  how many there were of each reason; "" counts those that were accepted
    relays          by URL: the version that each names, -1 if it does not answer
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
