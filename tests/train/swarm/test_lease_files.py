"""What a node uploads is what a verifier reads; no bytes do anything to a verifier but cost a bounded amount of memory,
and end in a verdict."""

import random
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from math import inf, nan
from typing import Any

import msgspec
import pytest
from honest_commitments import COMMITMENT_BYTES
from msgspec.structs import replace as changed
from swarm_answers import encode_lease_file

from train.asynchronous.messages import Lease, LeaseVerdict, SampleResult, pack_logprobs, pack_tokens
from train.sampling.commitment import CHUNK_TOKENS
from train.sampling.engine_spec import EngineSpec
from train.sampling.protocol import SampledCompletion, SamplingParams
from train.swarm.lease_file import compute_max_file_bytes, read_lease_file
from train.swarm.settings import SwarmSettings

VOCABULARY, CONTEXT, MAX_TOKENS = 500, 200, 100
SETTINGS = SwarmSettings("coder", EngineSpec("coder", "model", "transformers", CONTEXT), VOCABULARY)
REFUSED = LeaseVerdict("hard", "file")
THOROUGH = pytest.mark.thorough


def lease_of(*, n_answers: int = 3, prompt: tuple[int, ...] = (5, 7, 11), max_tokens: int = MAX_TOKENS) -> Lease:
    draw = SamplingParams(1.0, 1.0, max_tokens, logprobs=True, verifiable=True)
    return Lease(4, 1, 2, prompt, tuple(2**62 + number for number in range(n_answers)), draw, 60.0)


def honest(lease: Lease, *, n_tokens: int = 0) -> list[SampleResult]:
    """Return answers of random tokens, as many as given or 65 and more."""
    rng, results = random.Random(0), []
    for number in range(len(lease.seeds)):
        n = n_tokens or rng.randint(65, MAX_TOKENS)
        tokens = pack_tokens(rng.randrange(VOCABULARY) for _ in range(n))
        logprobs = pack_logprobs(-rng.randrange(64) / 8 for _ in range(n))
        commitments = rng.randbytes(COMMITMENT_BYTES * -(-n // CHUNK_TOKENS))
        span = lease.version, 0, n
        results.append(SampleResult(lease.group, number, lease.attempt, tokens, logprobs, (span,), "stop", commitments))
    return results


LEASE = lease_of()
HONEST = honest(LEASE)
CONTENT = encode_lease_file(HONEST)


def read(content: bytes, lease: Lease = LEASE) -> tuple[SampledCompletion, ...] | LeaseVerdict:
    return read_lease_file(content, lease, SETTINGS)


def with_last(lease: Lease = LEASE, **changes: Any) -> bytes:
    """Return a file whose last answer is changed."""
    *others, last = honest(lease)
    return encode_lease_file([*others, changed(last, **changes)])


def with_raw(change: Callable[[list[dict[Any, Any]]], Any]) -> bytes:
    """Return an honest file that was decoded, changed and encoded again, as no decoder of ours would let it."""
    raw = msgspec.msgpack.decode(CONTENT)
    return msgspec.msgpack.encode(change(raw) or raw)


def of_tokens(*tokens: int, logprobs: tuple[float, ...] | None = None) -> dict[str, Any]:
    n = len(tokens)
    return {
        "tokens": pack_tokens(tokens),
        "logprobs": pack_logprobs((-1.0,) * n if logprobs is None else logprobs),
        "spans": ((LEASE.version, 0, n),) if n else (),
    }


def test_a_verifier_reads_what_a_node_has_written() -> None:
    completions = read(CONTENT)
    assert not isinstance(completions, LeaseVerdict), completions
    for result, completion in zip(HONEST, completions, strict=True):
        assert pack_tokens(completion.token_ids) == result.tokens
        assert pack_logprobs(completion.logprobs) == result.logprobs
        assert (completion.finish_reason, completion.commitments) == (result.finish_reason, result.commitments)
        assert (completion.prompt_ids, completion.n_tokens) == (LEASE.prompt, len(result.tokens) // 4)


def test_the_same_answers_give_the_same_bytes() -> None:
    assert encode_lease_file(honest(LEASE)) == CONTENT


@pytest.mark.parametrize(("n_answers", "n_tokens"), [(200, 1), (200, 33), (2, MAX_TOKENS), (1, 20_000)])
def test_the_largest_honest_file_is_within_the_limit(n_answers: int, n_tokens: int) -> None:
    lease = lease_of(n_answers=n_answers, max_tokens=n_tokens)
    content = encode_lease_file(honest(lease, n_tokens=n_tokens))
    assert len(content) <= compute_max_file_bytes(lease)
    roomy = changed(SETTINGS, engine=changed(SETTINGS.engine, context_tokens=30_000))
    assert len(read_lease_file(content, lease, roomy)) == n_answers  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "outcome", "reason"),
    [
        (of_tokens(1) | {"spans": ((LEASE.version + 1, 0, 1),)}, "soft", "version"),
        (of_tokens(1, 2) | {"spans": ((2, 0, 1), (3, 1, 2))}, "soft", "version"),
        (of_tokens(1, 2) | {"spans": ()}, "soft", "version"),
        (of_tokens(1, 2) | {"spans": ((2, 0, 1),)}, "soft", "version"),
        (of_tokens(VOCABULARY), "hard", "tokens"),
        (of_tokens(2**32 - 1), "hard", "tokens"),
        (of_tokens(), "hard", "length"),
        (of_tokens(*[1] * (MAX_TOKENS + 1)), "hard", "length"),
        (of_tokens(1, 2, logprobs=(-1.0,)), "hard", "length"),
        (of_tokens(1, 2, logprobs=(-1.0,) * 3), "hard", "length"),
        ({"finish_reason": "refused"}, "hard", "length"),
        (of_tokens(1, logprobs=(nan,)), "soft", "logprobs"),
        (of_tokens(1, logprobs=(-inf,)), "soft", "logprobs"),
        (of_tokens(1, logprobs=(inf,)), "soft", "logprobs"),
        (of_tokens(1, logprobs=(0.5,)), "soft", "logprobs"),
        ({"tokens": b"abcde"}, "hard", "file"),
        ({"logprobs": b"abcde"}, "hard", "file"),
    ],
)  # fmt: skip
def test_answers_that_are_not_those_to_the_lease_are_rejected(
    changes: dict[str, Any], outcome: Any, reason: Any
) -> None:
    assert read(with_last(**changes)) == LeaseVerdict(outcome, reason)


def test_only_a_prompt_that_fills_the_context_may_be_refused() -> None:
    lease = lease_of(prompt=(1,) * CONTEXT, n_answers=2)
    refusal = SampleResult(lease.group, 0, lease.attempt, b"", b"", (), "refused")
    refusals = [refusal, changed(refusal, number=1)]
    assert read(encode_lease_file(refusals), lease) == ()
    too_long = LeaseVerdict("hard", "length")
    assert read(encode_lease_file(honest(lease)), lease) == too_long
    assert read(encode_lease_file([refusal, changed(honest(lease)[1])]), lease) == too_long
    for more in ({"tokens": b"1234"}, {"logprobs": b"1234"}, {"spans": ((2, 0, 1),)}, {"commitments": b"1"}):
        assert read(encode_lease_file([refusal, changed(refusals[1], **more)]), lease) == too_long


def test_an_answer_that_fills_the_context_is_no_longer_than_it() -> None:
    lease = lease_of(prompt=(1,) * (CONTEXT - 80), n_answers=1)
    assert len(read(encode_lease_file(honest(lease, n_tokens=80)), lease)) == 1  # type: ignore[arg-type]
    assert read(encode_lease_file(honest(lease, n_tokens=81)), lease) == LeaseVerdict("hard", "length")


def test_equal_long_answers_are_believed_if_the_seeds_give_them() -> None:
    lease = lease_of(n_answers=2)
    first, second = honest(lease)
    content = encode_lease_file([first, changed(first, number=1)])
    assert len(read(content, lease)) == 2  # type: ignore[arg-type]
    without = changed(SETTINGS, check_seeds=False)
    assert read_lease_file(content, lease, without) == LeaseVerdict("soft", "copies")
    short = [changed(result, **of_tokens(1, 2)) for result in (first, second)]
    assert len(read_lease_file(encode_lease_file(short), lease, without)) == 2  # type: ignore[arg-type]


def test_a_file_that_is_too_long_is_not_decoded() -> None:
    most = compute_max_file_bytes(LEASE)
    assert read(bytes(most + 1)) == LeaseVerdict("hard", "size")
    padded = with_raw(lambda raw: raw[0].update({"more": bytes(most)}))
    assert read(padded) == LeaseVerdict("hard", "size")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda raw: raw[:2], id="an answer less"),
        pytest.param(lambda raw: [*raw, raw[0]], id="an answer more"),
        pytest.param(lambda raw: [raw[0], raw[0], raw[2]], id="an answer twice"),
        pytest.param(lambda raw: raw[::-1], id="another order"),
        pytest.param(lambda raw: raw[0].update(number=-1), id="a negative number"),
        pytest.param(lambda raw: raw[0].update(number=2**64 - 1), id="a huge number"),
        pytest.param(lambda raw: raw[1].update(group=5), id="another group"),
        pytest.param(lambda raw: raw[1].update(attempt=0), id="another attempt"),
        pytest.param(lambda raw: raw[1].update(group="4"), id="a text for a number"),
        pytest.param(lambda raw: raw[1].update(group=True), id="a truth for a number"),
        pytest.param(lambda raw: raw[1].update(group=4.5), id="a fraction"),
        pytest.param(lambda raw: raw[1].update(group=nan), id="not a number"),
        pytest.param(lambda raw: raw[1].update(group=None), id="nothing"),
        pytest.param(lambda raw: raw[1].update(tokens="1234"), id="a text for bytes"),
        pytest.param(lambda raw: raw[1].update(tokens=[1, 2, 3]), id="a list for bytes"),
        pytest.param(lambda raw: raw[1].update(commitments=7), id="a number for bytes"),
        pytest.param(lambda raw: raw[1].update(finish="done"), id="another end"),
        pytest.param(lambda raw: raw[1].update(finish="sto\0p"), id="an end with a zero byte"),
        pytest.param(lambda raw: raw[1].update(spans=[[2, 0]]), id="a short span"),
        pytest.param(lambda raw: raw[1].update(spans={"2": 0}), id="spans by name"),
        pytest.param(lambda raw: raw[1].pop("tokens"), id="a field less"),
        pytest.param(lambda raw: [list(one.values()) for one in raw], id="answers without names"),
        pytest.param(lambda raw: {"answers": raw}, id="a map"),
        pytest.param(lambda raw: [raw], id="a list of lists"),
    ],
)
def test_another_form_is_refused(change: Callable[[Any], Any]) -> None:
    raw = msgspec.msgpack.decode(CONTENT)
    made = change(raw)
    raw = made if isinstance(made, (list, dict)) and made is not raw and "tokens" not in made else raw
    assert read(msgspec.msgpack.encode(raw)) == REFUSED


def test_unknown_names_are_ignored_as_in_all_messages() -> None:
    assert read(with_raw(lambda raw: raw[0].update(more={"deep": [1, 2, {"er": None}]}))) == read(CONTENT)


DEEP = b"\x91" * 50_000
SURROGATE = b"\xed\xa0\x80"  # half of a pair, which UTF-8 does not have


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xc1",
        b"PAR1PAR1",
        b"[]",
        b"\x90",
        b"\xc0",
        CONTENT + b"\0",
        CONTENT + CONTENT,
        b"\xdd\xff\xff\xff\xff",
        b"\xdd\x08\x00\x00\x00" + CONTENT[1:],
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\xc9\xff\xff\xff\xff\xff",
        b"\x93" + b"\xdf\xff\xff\xff\xff" * 3,
        DEEP,
        b"\x81" * 50_000,
        b"\x93\x81\xa4more" + DEEP,
        b"\x93\x81\xa5spans" + DEEP,
        CONTENT.replace(b"\xa4stop", b"\xa3" + SURROGATE, 1),
        CONTENT.replace(b"\xa6tokens", b"\xa6tok" + SURROGATE, 1),
        CONTENT.replace(b"\xa4stop", b"\xa4\xff\xfe\xff\xfe", 1),
        CONTENT.replace(b"\xa4stop", b"\xa8stopstop", 1),
    ],
    ids=range(23),
)
def test_bytes_that_are_no_file_are_refused(content: bytes) -> None:
    assert len(content) <= compute_max_file_bytes(LEASE)
    assert read(content) == REFUSED


def test_a_file_that_was_cut_off_is_refused_wherever_it_was() -> None:
    assert {read(CONTENT[:size]) for size in range(len(CONTENT))} == {REFUSED}


def test_a_field_that_comes_twice_counts_once() -> None:
    twice = CONTENT.replace(b"\x88\xa5group\x04", b"\x89\xa5group\x05\xa5group\x04", 1)
    assert twice != CONTENT
    assert read(twice) == read(CONTENT)


@pytest.mark.parametrize("batch", [0, *(pytest.param(batch, marks=THOROUGH) for batch in range(1, 10))])
def test_no_change_of_an_honest_file_does_any_harm(batch: int) -> None:
    rng = random.Random(batch)
    small = lease_of(max_tokens=3)
    content = encode_lease_file(honest(small, n_tokens=3))
    whole = read(content, small)
    reasons = set()
    for _ in range(2000):
        data = bytearray(content)
        for _ in range(rng.randint(1, 4)):
            place = rng.choice((rng.randrange(len(data)), rng.randrange(40)))
            kind = rng.random()
            if kind < 0.6:
                data[place] = rng.choice((0, 1, 127, 128, 145, 192, 196, 217, 220, 255, rng.randrange(256)))
            elif kind < 0.8:
                del data[place : place + rng.randint(1, 9)]
            else:
                data[place:place] = rng.randbytes(rng.randint(1, 9))
        found = read(bytes(data), small)
        if isinstance(found, LeaseVerdict):
            reasons.add(found.reason)
        else:
            assert not isinstance(whole, LeaseVerdict)
            assert len(found) == len(whole)
            assert all(0 <= token < VOCABULARY for one in found for token in one.token_ids)
            assert all(one.n_tokens == len(one.token_ids) == len(one.logprobs) <= 3 for one in found)
    assert reasons <= {"file", "size", "length", "version", "tokens", "logprobs"}
    assert "file" in reasons


@pytest.mark.parametrize(
    "bomb",
    [
        pytest.param(lambda most: {"spans": [[1, 1, 1]] * ((most - 9000) // 4)}, id="spans"),
        pytest.param(lambda most: {"more": [0] * (most - 9000)}, id="a list that nobody wants"),
        pytest.param(lambda most: {"more": bytes(most - 9000)}, id="bytes that nobody wants"),
        pytest.param(lambda most: {"commitments": bytes(most - 9000)}, id="commitments"),
        pytest.param(lambda most: {str(number): 0 for number in range((most - 9000) // 8)}, id="names"),
    ],
)
def test_a_file_costs_a_bounded_multiple_of_its_size(bomb: Callable[[int], dict[str, Any]]) -> None:
    lease = lease_of(max_tokens=20_000)
    most = compute_max_file_bytes(lease)
    raw = msgspec.msgpack.decode(CONTENT)
    raw[0].update(bomb(most))
    content = msgspec.msgpack.encode(raw)
    assert most / 2 < len(content) <= most
    tracemalloc.start()
    try:
        found = read(content, lease)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(found, (LeaseVerdict, tuple))
    assert peak <= 40 * most


def test_a_file_of_another_lease_is_rejected() -> None:
    other = Lease(5, LEASE.attempt, LEASE.version, LEASE.prompt, LEASE.seeds, LEASE.sampling_params, 60.0)
    assert read(CONTENT, other) == REFUSED
    shorter = changed(LEASE, sampling_params=replace(LEASE.sampling_params, max_tokens=10))
    assert read(CONTENT, shorter) == LeaseVerdict("hard", "length")
