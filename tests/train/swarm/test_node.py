"""A node as its coordinator sees it: whole groups, each uploaded once, whatever the network does."""

from collections import deque
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from curate_command import curate
from msgspec.structs import replace

from train.asynchronous.messages import (
    ACCEPTED,
    Heartbeat,
    HeartbeatResponse,
    Lease,
    LeaseRequest,
    LeaseResponse,
    LeaseVerdict,
    ReleaseRequest,
    SampleResult,
    SubmitRequest,
    pack_logprobs,
    pack_tokens,
)
from train.errors import ConfigError, ControllerUnreachable, RunError, TransferError
from train.sampling.engine_spec import EngineSpec
from train.sampling.protocol import SamplingParams
from train.swarm.client import JoinRequired, ResourceGone, join
from train.swarm.folder import SwarmAddress, SwarmFolder
from train.swarm.invites import create_invite
from train.swarm.messages import JoinResponse
from train.swarm.node import SwarmController
from train.swarm.settings import SwarmSettings, sign_settings
from train.swarm.signatures import create_key_file, load_or_create_key, public_key_bytes
from train.weights.manifest import WeightManifest


def lease_of(group: int = 7, n_answers: int = 3) -> Lease:
    draw = SamplingParams(1.0, 1.0, 32, logprobs=True, verifiable=True)
    return Lease(group, 0, 5, (1, 2, 3), tuple(range(10, 10 + n_answers)), draw, 600.0)


class Coordinator:
    """What a node says is kept; `trouble` has the errors of the next calls."""

    def __init__(self, *leases):
        self.leases, self.orders = deque(leases), HeartbeatResponse()
        self.said, self.trouble = [], deque()
        self.receipt = "taken"

    def call(self, path, message, kind):
        self.said.append((path, message))
        if self.trouble:
            raise self.trouble.popleft()
        if path == "/work":
            given = tuple(self.leases)
            self.leases.clear()
            return LeaseResponse(given)
        if path == "/answers":
            return [self.receipt] * len(message.results)
        return self.orders if path == "/beat" else None


class Relays:
    """They name these versions, one after another, and then the last one again and again."""

    def __init__(self, *versions):
        self.versions = deque(versions)

    def fetch_newest_manifest(self):
        version = self.versions.popleft() if len(self.versions) > 1 else self.versions[0]
        if version is None:
            raise TransferError("no relay serves a version")
        return WeightManifest(version)


@pytest.fixture
def node():
    def made(coordinator, relays=None, **options):
        given = {"join": lambda: None, **options}
        return SwarmController(coordinator, relays or Relays(5), **given)

    return made


def answer(lease: Lease, number: int) -> SampleResult:
    tokens = (number, 4, 5)
    packed = pack_tokens(tokens), pack_logprobs([-1.0, -0.5, -0.25])
    return SampleResult(lease.group, number, lease.attempt, *packed, ((5, 0, 3),), "stop", b"commitment")


def asked(node) -> tuple[Lease, ...]:
    return node.request_leases(LeaseRequest("n", 5, 100)).leases


def test_the_answers_to_each_lease_go_by_themselves(node):
    """A body may be as large as one lease allows."""
    coordinator = Coordinator(lease_of(7), lease_of(8))
    controller = node(coordinator)
    one, other = asked(controller)
    answers = answer(one, 2), answer(other, 0), answer(one, 0)
    assert controller.submit_results(SubmitRequest("n", answers)) == ["taken"] * 3
    assert coordinator.said[1:] == [
        ("/answers", SubmitRequest("n", (answers[0], answers[2]))),
        ("/answers", SubmitRequest("n", (answers[1],))),
    ]


def test_after_a_failure_of_the_network_the_same_answers_are_sent_again(node):
    coordinator = Coordinator(lease_of())
    controller = node(coordinator)
    (lease,) = asked(controller)
    whole = SubmitRequest("n", tuple(answer(lease, number) for number in range(3)))
    coordinator.trouble.append(ControllerUnreachable("the reply was lost"))
    with pytest.raises(ControllerUnreachable):
        controller.submit_results(whole)
    coordinator.receipt = "again"
    assert controller.submit_results(whole) == ["again"] * 3
    assert coordinator.said[1:] == [("/answers", whole)] * 2


def test_what_comes_too_late_is_given_up(node):
    coordinator = Coordinator(lease_of())
    coordinator.receipt = "stale"
    controller = node(coordinator)
    (lease,) = asked(controller)
    whole = SubmitRequest("n", tuple(answer(lease, number) for number in range(3)))
    assert controller.submit_results(whole) == ["stale"] * 3
    coordinator.trouble.append(ResourceGone("the coordinator was started again"))
    assert controller.submit_results(whole) == ["stale"] * 3


def test_beats_bring_orders_and_verdicts(node):
    lost, kept = lease_of(7), lease_of(8)
    coordinator = Coordinator(lost, kept)
    notes = []
    controller = node(coordinator, note=notes.append)
    gone, held = asked(controller)
    coordinator.orders = HeartbeatResponse(
        ((7, 0),), verdicts=(((8, 0), ACCEPTED), ((7, 0), LeaseVerdict("hard", "replay")))
    )
    orders = controller.heartbeat(Heartbeat("n", 5, ((gone.group, 0), (held.group, 0))))
    assert orders.leases_to_drop == ((gone.group, 0),)
    assert notes == ["lease 8: accepted", "lease 7: rejected (replay, permanently)"]


def test_a_node_that_was_missed_joins_again_and_goes_on(node):
    coordinator = Coordinator(lease_of())
    coordinator.trouble.append(JoinRequired("it was not seen for 90 s"))
    joined = []
    controller = node(coordinator, join=lambda: joined.append(True))
    assert len(asked(controller)) == 1
    assert joined == [True]


def test_a_node_is_told_once_why_it_has_to_join_again(node):
    coordinator, notes = Coordinator(), []

    def refused():
        raise ControllerUnreachable("it may join again in 600 s")

    controller = node(coordinator, join=refused, note=notes.append)
    for _ in range(3):
        coordinator.trouble.append(JoinRequired("this node is suspended: no answers came in time; join again"))
        with pytest.raises(ControllerUnreachable, match="600 s"):
            controller.heartbeat(Heartbeat("n", 5, ()))
    assert notes == ["this node is suspended: no answers came in time; join again"]


@pytest.mark.parametrize(
    "options",
    [
        {"trust_remote_code": True},
        {"worker_extension_cls": "os.system"},
        {"worker_cls": "evil.Worker"},
        {"logits_processors": ["evil.Processor"]},
        {"kv_transfer_config": {"kv_connector_module_path": "evil"}},
        {"load_format": "pt"},
        {"tokenizer": "evil/tokenizer"},
        {"hf_overrides": {"auto_map": {"AutoConfig": "evil.Config"}}},
        {"hf_overrides": {"head_dtype": ["float32"]}},
        {"hf_overrides": "evil"},
        {"dtype": {"float32": 1}},
        {"max_model_len": "1"},
    ],
)
def test_no_option_that_loads_code_reaches_a_node(options):
    key = Ed25519PrivateKey.generate()
    engine = EngineSpec(
        "coder", "a model", "vllm", 64, {"max_model_len": 64, "hf_overrides": {"head_dtype": "float32"}}
    )

    class Client:
        invite = create_invite(key, run="coder", coordinator="http://c", relays=(), role="node", seconds=60)

        def call(self, path, message, kind):
            return JoinResponse(sign_settings(SwarmSettings("coder", self.engine, 100), key))

    client = Client()
    client.engine = engine
    assert join(client, engine="").engine == engine
    client.engine = replace(engine, vllm={**engine.vllm, **options})
    with pytest.raises(RunError, match="cannot be used: a swarm does not set"):
        join(client, engine="")


def test_weights_are_those_that_the_relays_name(node):
    assert node(Coordinator(), Relays(5)).wait_for_weights(4, 0.0) == WeightManifest(5)
    assert node(Coordinator(), Relays(5)).wait_for_weights(5, 0.0) is None
    with pytest.raises(ControllerUnreachable, match="no relay serves a version"):
        node(Coordinator(), Relays(None)).wait_for_weights(-1, 0.0)


def test_a_node_leaves_politely(node):
    coordinator = Coordinator()
    node(coordinator).release(ReleaseRequest("n"))
    assert coordinator.said == [("/leave", ReleaseRequest("n"))]


def test_a_key_is_made_once_and_nobody_else_can_read_it(tmp_path):
    path = tmp_path / "far" / "node.key"
    assert public_key_bytes(load_or_create_key(path)) == public_key_bytes(load_or_create_key(path))
    assert path.stat().st_mode & 0o077 == 0
    (tmp_path / "file").write_text("not a key")
    with pytest.raises(ConfigError, match="is not a key"):
        load_or_create_key(tmp_path / "file")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param([], "either with --controller URL or with --join INVITE", id="no run"),
        pytest.param(["--controller", "http://a:1", "--join", "x"], "either with --controller", id="two runs"),
        pytest.param(["--join", "x", "--name", "me"], "a swarm identifies nodes by their keys", id="a name"),
        pytest.param(["--controller", "http://a:1", "--key", "k"], "--key is for --join", id="a key"),
        pytest.param(["--join", "nonsense"], "this is not an invite, or it is incomplete", id="not an invite"),
    ],
)
def test_what_is_wrong_with_the_options_is_explained(options, words):
    result = curate("rollout", *options)
    assert result.exit_code != 0
    assert words in " ".join(result.output.split())
    assert "Traceback" not in result.output


def test_the_invite_of_a_verifier_is_not_used_up_by_a_node(tmp_path):
    place = SwarmFolder(tmp_path)
    create_key_file(place.key_path)
    place.write_address(SwarmAddress("coder", "http://127.0.0.1:1", "http://127.0.0.1:1"))
    invite = curate("swarm", "invite", tmp_path, "--verifier").output.strip()
    result = curate("rollout", "--join", invite, "--key", tmp_path / "k", "--patience", "0")
    assert result.exit_code == 1
    assert "this invite is for a verifier" in result.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(["swarm", "status", "."], "is not the folder of a coordinator", id="status"),
        pytest.param(["swarm", "ban", ".", "a"], "is not the folder of a coordinator", id="ban"),
        pytest.param(["ledger", "audit", "."], "does not have the ledger of a coordinator", id="audit"),
        pytest.param(["ledger", "audit", "file", "--public-key", "12"], "64 hexadecimal digits", id="half a key"),
        pytest.param(
            ["ledger", "audit", "file", "--public-key", "00" * 32, "--seen", "12"], "a digest of 64", id="half a digest"
        ),
        pytest.param(
            ["coordinator", "file/x", "--controller", "http://127.0.0.1:1"], "Choose another FOLDER", id="no folder"
        ),
        pytest.param(
            ["coordinator", "c", "--controller", "http://127.0.0.1:1", "--bars", "file"],
            "does not hold thresholds",
            id="bars",
        ),
    ],
)
def test_what_is_wrong_with_folders_and_keys_is_explained(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("what?")
    result = curate(*words)
    assert result.exit_code == 1
    assert said in " ".join(result.output.split())
