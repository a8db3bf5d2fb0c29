"""A verifier judges files in the stated order, and never takes its own failures for those of a node."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pytest
import swarm_answers
import torch
from blake3 import blake3
from safetensors.torch import load_file, save_file

from train.asynchronous.messages import ACCEPTED, Lease, LeaseVerdict, unpack_tokens
from train.errors import SamplerError, TransferError
from train.sampling.protocol import SampledCompletion
from train.sampling.transformers import TransformersSampler
from train.swarm.messages import VerificationJob
from train.swarm.settings import SwarmSettings
from train.swarm.verification.verifier_model import VerifierModel
from train.swarm.verification.verifier_process import FileVerifier

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch and transformers about each other

ENGINE = "transformers 5.5.0 cpu"
[LEASE] = swarm_answers.leases(1, tokens=48)


@dataclass(frozen=True)
class Node:
    """A model, its weights as a version of the run, and what an honest node draws with it."""

    folder: Path
    settings: SwarmSettings
    answers: list[SampledCompletion]

    def weights(self, version: int) -> tuple[Path, ...]:
        assert version == LEASE.version
        return (self.folder / "model" / "model.safetensors",)

    def judge(self, files_of: Callable[[int], Sequence[Path]] | None = None) -> FileVerifier:
        return FileVerifier(self.settings, VerifierModel(self.folder / "model"), files_of or self.weights)

    def content(self, lease: Lease = LEASE) -> bytes:
        return swarm_answers.lease_file(lease, self.answers)


def job(content: bytes, lease: Lease = LEASE) -> VerificationJob:
    return VerificationJob(lease, ENGINE, len(content), blake3(content).digest())


@pytest.fixture(scope="module")
def node(tiny_model, tmp_path_factory) -> Node:
    folder = tmp_path_factory.mktemp("judging")
    path = swarm_answers.model(folder / "model", tiny_model, layers=2, width=64)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    answers = swarm_answers.drawn(TransformersSampler(str(path)), LEASE)
    torch.set_num_threads(threads)
    return Node(folder, swarm_answers.settings(path, {}, 10_000), answers)


def test_an_honest_file_is_accepted_with_the_verifiers_own_numbers(node: Node) -> None:
    content = node.content()
    verified = node.judge().verify(job(content), content)
    assert verified.verdict == ACCEPTED
    assert [tuple(unpack_tokens(answer.tokens)) for answer in verified.results] == [
        answer.token_ids for answer in node.answers
    ]


def test_nothing_is_loaded_for_a_file_that_is_refused_by_a_cheap_check(node: Node) -> None:
    def no_weights(version: int) -> Sequence[Path]:
        raise AssertionError("weights were asked for")

    judge, content = node.judge(no_weights), node.content()
    other = msgspec.structs.replace(LEASE, version=LEASE.version + 1)
    assert judge.verify(job(b"PAR1PAR1"), b"PAR1PAR1").verdict == LeaseVerdict("hard", "file")
    assert judge.verify(job(content, other), content).verdict == LeaseVerdict("soft", "version")
    assert judge.verify(job(content), content[:-1] + b"?").verdict == LeaseVerdict("unknown", "digest")


def test_a_token_that_the_model_does_not_have_is_found_even_if_the_run_allows_it(node: Node) -> None:
    first, *others = node.answers
    unknown = replace(first, token_ids=(9_999, *first.token_ids[1:]))
    content = replace(node, answers=[unknown, *others]).content()
    assert node.settings.vocab_size == 10_000
    assert node.judge().verify(job(content), content).verdict == LeaseVerdict("hard", "tokens")


def test_answers_of_another_model_are_rejected(node: Node, tiny_model, tmp_path: Path) -> None:
    swarm_answers.model(tmp_path / "other", tiny_model, layers=2, width=64, seed=1)
    content = node.content()
    verified = node.judge(lambda version: [tmp_path / "other" / "model.safetensors"]).verify(job(content), content)
    assert verified.verdict == LeaseVerdict("hard", "commitments")
    assert verified.results == ()


def test_a_version_that_cannot_be_had_is_no_fault_of_the_node(node: Node) -> None:
    def gone(version: int) -> Sequence[Path]:
        raise TransferError("no relay has it any more")

    content = node.content()
    assert node.judge(gone).verify(job(content), content).verdict == LeaseVerdict("unknown", "no weights")


def test_a_check_that_fails_leaves_the_file_unknown_and_the_next_one_is_judged(node: Node, tmp_path: Path) -> None:
    right, wrong = node.folder / "model" / "model.safetensors", tmp_path / "wrong.safetensors"
    save_file({name: tensor[:1].clone() for name, tensor in load_file(right).items()}, wrong)
    places = [wrong, right]
    judge, content = node.judge(lambda version: [places.pop(0)]), node.content()
    assert judge.verify(job(content), content).verdict == LeaseVerdict("unknown", "crashed")
    assert judge.verify(job(content), content).verdict == ACCEPTED


def test_another_prompt_or_other_seeds_than_those_leased_are_found_by_the_computation(node: Node) -> None:
    content = node.content()
    other_prompt = msgspec.structs.replace(LEASE, prompt=(1, 2, 3))
    other_seeds = msgspec.structs.replace(LEASE, seeds=tuple(seed + 1 for seed in LEASE.seeds))
    for other, reason in ((other_prompt, "commitments"), (other_seeds, "replay")):
        assert node.judge().verify(job(content, other), content).verdict == LeaseVerdict("hard", reason)


def test_a_verifier_that_computes_no_numbers_any_more_ends(node: Node, tmp_path: Path) -> None:
    broken = tmp_path / "broken.safetensors"
    weights = load_file(node.folder / "model" / "model.safetensors")
    save_file({name: tensor * float("nan") for name, tensor in weights.items()}, broken)
    content = node.content()
    with pytest.raises(SamplerError, match="Restart it"):
        node.judge(lambda version: [broken]).verify(job(content), content)
