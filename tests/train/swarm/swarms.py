"""A swarm in this process: a real controller over HTTP, a real coordinator, and nodes and verifiers that do as told."""

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fleet
from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace

from train.asynchronous.controller import Controller
from train.asynchronous.dispatcher import ControllerSettings
from train.asynchronous.messages import (
    ACCEPTED,
    Heartbeat,
    HeartbeatResponse,
    Lease,
    LeaseRequest,
    LeaseResponse,
    LeaseVerdict,
    ReleaseRequest,
    ResultStatus,
    SampleResult,
    SubmitRequest,
)
from train.asynchronous.server import ControllerServer
from train.sampling.engine_spec import EngineSpec
from train.swarm.accounts import Accounts, Entry
from train.swarm.client import SignedClient, join
from train.swarm.coordinator.runtime import CoordinatorOptions, run_coordinator
from train.swarm.folder import SwarmFolder
from train.swarm.invites import Invite, Role, create_invite
from train.swarm.messages import (
    VerificationJob,
    VerificationJobResponse,
    VerificationResult,
)
from train.swarm.settings import SwarmSettings
from train.swarm.signatures import read_key
from train.weights.manifest import WeightFile, WeightManifest

RUN = "a-run"
TERMS = EngineSpec(RUN, "a-model", "transformers", 128)
RULES = ControllerSettings(
    prompts_per_batch=2, completions_per_prompt=3, total_steps=10, max_tokens=8, max_staleness=2, online_filter=False
)


def settings(**changes: Any) -> SwarmSettings:
    return SwarmSettings(**{"run": RUN, "engine": TERMS, "vocab_size": 1000, "lease_seconds": 60.0, **changes})


def accounts_of(entries: Iterable[Entry]) -> Accounts:
    """Add entries up, from the first on."""
    accounts = Accounts()
    for entry in entries:
        accounts.add(entry)
    return accounts


def publish(controller: Controller, folder: Path, version: int) -> None:
    content = bytes([version]) * 1000
    place = folder / f"weights-{version}"
    place.mkdir()
    (place / "model.safetensors").write_bytes(content)
    file = WeightFile("model.safetensors", len(content), blake3(content).hexdigest())
    controller.publish_weights(WeightManifest(version, (file,), str(place)))


def invite(folder: Path, role: Role = "node", *, seconds: float = 600.0, url: str = "") -> Invite:
    place = SwarmFolder(folder)
    coordinator = url or place.read_address().coordinator
    return create_invite(
        read_key(place.key_path), run=RUN, coordinator=coordinator, relays=(coordinator,), role=role, seconds=seconds,
        stake=100,
    )  # fmt: skip


def answers_to(lease: Lease, **changes: Any) -> tuple[SampleResult, ...]:
    """Return answers that make sense, with changes to the last of them."""
    *others, last = (fleet.answer_to(lease, number) for number in range(len(lease.seeds)))
    return (*others, replace(last, **changes))


@dataclass
class Member:
    """A node or a verifier. `running` are leases that it names in its beats."""

    client: SignedClient
    running: dict[int, Lease] = field(default_factory=dict)
    engine: str = "transformers 5.0"

    def join(self) -> SwarmSettings:
        return join(self.client, engine=self.engine, hardware="a box")

    def work(self, loaded: int = 0, slots: int = 100) -> LeaseResponse:
        return self.client.call("/work", LeaseRequest(self.client.name, loaded, slots), LeaseResponse)

    def ask(self, loaded: int = 0, slots: int = 100) -> list[Lease]:
        """Ask until there is a lease."""
        until = time.monotonic() + 20
        while time.monotonic() < until:
            reply = self.work(loaded, slots)
            if reply.leases or reply.run_ended:
                self.running |= {lease.group: lease for lease in reply.leases}
                return list(reply.leases)
            time.sleep(0.05)
        raise AssertionError("there was no lease")

    def submit(self, *answers: SampleResult) -> list[ResultStatus]:
        """Send some answers."""
        return self.client.call("/answers", SubmitRequest(self.client.name, answers), list[ResultStatus])

    def upload(self, lease: Lease, answers: Sequence[SampleResult] = ()) -> ResultStatus:
        """Send all answers to a lease at once; sound ones, unless others are given. They all get the same status."""
        self.running.pop(lease.group, None)
        [status] = set(self.submit(*(answers or answers_to(lease))))
        return status

    def beat(self, loaded: int = 0) -> HeartbeatResponse:
        running = tuple((group, 0) for group in self.running)
        return self.client.call("/beat", Heartbeat(self.client.name, loaded, running, 10.0), HeartbeatResponse)

    def leave(self) -> None:
        self.client.call("/leave", ReleaseRequest(self.client.name), type(None))

    def job(self) -> VerificationJob:
        until = time.monotonic() + 20
        while (job := self.client.call("/job", None, VerificationJobResponse).job) is None:
            assert time.monotonic() < until, "there was no job"
            time.sleep(0.02)
        return job

    def judge(self, job: VerificationJob, verdict: LeaseVerdict = ACCEPTED) -> None:
        content = self.client.fetch(f"/file/{job.lease.group}", 10**6)
        assert (len(content), blake3(content).digest()) == (job.n_bytes, job.blake3)
        answers = answers_to(job.lease) if verdict is ACCEPTED else ()
        self.client.call(f"/verdict/{job.lease.group}", VerificationResult(verdict, answers), type(None))


class World:
    """A trainer's controller and the folder of a coordinator."""

    def __init__(self, folder: Path, rules: ControllerSettings = RULES) -> None:
        self.folder, self.place = folder, folder / "swarm"
        self.controller = fleet.controller(rules, now=time.monotonic)
        publish(self.controller, folder, 0)
        self.server = ControllerServer(self.controller, "127.0.0.1:0", token=None, run=RUN, spec=TERMS)
        self.url = ""

    def member(self, role: Role = "node", **changes: Any) -> Member:
        client = SignedClient(invite(self.place, role, **changes), Ed25519PrivateKey.generate())
        joined = Member(client)
        joined.join()
        return joined

    @contextmanager
    def coordinator(
        self, *, listen: str = "127.0.0.1:0", store: str = "", **changes: Any
    ) -> Iterator[threading.Thread]:
        """Run a coordinator in a thread."""
        is_ready = threading.Event()
        errors: list[Exception] = []

        def serve() -> None:
            try:
                run_coordinator(options, lambda controller: settings(**changes), on_ready=ready, stop=stop)
            except Exception as error:  # the test raises it in its own thread
                errors.append(error)
                is_ready.set()

        def ready(url: str, page: str) -> None:
            self.url, self.page = url, page
            is_ready.set()

        options, stop = CoordinatorOptions(self.place, self.server.url, None, listen, store=store), threading.Event()
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            assert is_ready.wait(30)
            assert not errors, errors
            yield thread
        finally:
            stop.set()
            thread.join(30)
            assert not errors, errors

    def close(self) -> None:
        self.server.close(run_ended=False)
