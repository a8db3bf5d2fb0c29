"""What a node writes is what a verifier reads, if it answers the lease."""

from dataclasses import replace
from math import inf, nan
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rollout_files import CONTEXT, ENGINE, MAX_TOKENS, NODE, SETTINGS, VOCABULARY, content, lease, rows

from train.swarm.files.reader import read_rollout_file
from train.swarm.files.rows import RolloutFile
from train.swarm.files.sizes import max_file_bytes
from train.swarm.files.validation import validate
from train.swarm.messages import SwarmLease
from train.swarm.verdict import LeaseVerdict


def test_a_verifier_reads_what_a_node_has_written(tmp_path: Path) -> None:
    given = lease()
    written = rows(given)
    assert read_rollout_file(content(tmp_path, given, written), given, SETTINGS) == RolloutFile(
        tuple(written), NODE, given.id, ENGINE
    )


def test_the_same_answers_give_the_same_bytes(tmp_path: Path) -> None:
    given = lease()
    assert content(tmp_path, given) == content(tmp_path, given)


def test_the_largest_honest_file_is_within_the_limit(tmp_path: Path) -> None:
    given = lease(n_answers=200)
    one_token = [
        replace(row, token_ids=(1,), logprobs=(-1.0,), commitments=bytes(range(256)) + b"ab") for row in rows(given)
    ]
    draw = replace(given.lease.sampling_params, max_tokens=1)
    short = SwarmLease(given.id, msgspec.structs.replace(given.lease, sampling_params=draw))
    data = content(tmp_path, short, one_token)
    assert len(data) <= max_file_bytes(short.lease)
    assert isinstance(read_rollout_file(data, short, SETTINGS), RolloutFile)


@pytest.mark.parametrize(
    ("changes", "outcome", "reason"),
    [
        ({"prompt_ids": (5, 7, 12)}, "hard", "prompt"),
        ({"prompt_ids": (5, 7)}, "hard", "prompt"),
        ({"seed": 1}, "hard", "seeds"),
        ({"version": 3}, "soft", "version"),
        ({"token_ids": (VOCABULARY,), "logprobs": (-1.0,)}, "hard", "tokens"),
        ({"token_ids": (), "logprobs": ()}, "hard", "length"),
        ({"token_ids": (1,) * (MAX_TOKENS + 1), "logprobs": (-1.0,) * (MAX_TOKENS + 1)}, "hard", "length"),
        ({"logprobs": (-1.0,)}, "hard", "length"),
        ({"finish_reason": "refused"}, "hard", "length"),
        ({"token_ids": (1,), "logprobs": (nan,)}, "soft", "logprobs"),
        ({"token_ids": (1,), "logprobs": (-inf,)}, "soft", "logprobs"),
        ({"token_ids": (1,), "logprobs": (0.5,)}, "soft", "logprobs"),
    ],
)
def test_answers_that_are_not_those_to_the_lease_are_rejected(
    changes: dict[str, Any], outcome: Any, reason: Any
) -> None:
    given = lease()
    file = RolloutFile(tuple(rows(given, **changes)), NODE, given.id, ENGINE)
    assert validate(file, given.lease, SETTINGS) == LeaseVerdict(outcome, reason)


def test_only_a_prompt_that_fills_the_context_may_be_refused() -> None:
    given = lease(prompt=(1,) * CONTEXT, n_answers=1)
    refused = rows(given, token_ids=(), logprobs=(), commitments=b"", finish_reason="refused")
    assert validate(RolloutFile(tuple(refused), NODE, given.id, ENGINE), given.lease, SETTINGS) is None
    answered = RolloutFile(tuple(rows(given)), NODE, given.id, ENGINE)
    assert validate(answered, given.lease, SETTINGS) == LeaseVerdict("hard", "length")


def test_equal_long_answers_are_believed_if_the_seeds_give_them() -> None:
    given = lease(n_answers=2)
    first, second = rows(given)
    file = RolloutFile(
        (first, replace(second, token_ids=first.token_ids, logprobs=first.logprobs)), NODE, given.id, ENGINE
    )
    assert validate(file, given.lease, SETTINGS) is None
    without = msgspec.structs.replace(SETTINGS, check_seeds=False)
    assert validate(file, given.lease, without) == LeaseVerdict("soft", "copies")
    short = tuple(replace(row, token_ids=(1, 2), logprobs=(-1.0, -1.0)) for row in (first, second))
    assert validate(RolloutFile(short, NODE, given.id, ENGINE), given.lease, without) is None


def test_a_file_of_another_lease_is_rejected(tmp_path: Path) -> None:
    given = lease()
    other = SwarmLease(bytes(16), given.lease)
    assert read_rollout_file(content(tmp_path, given), other, SETTINGS) == LeaseVerdict("hard", "file")


def test_a_file_that_is_too_long_is_not_opened() -> None:
    given = lease()
    assert read_rollout_file(bytes(max_file_bytes(given.lease) + 1), given, SETTINGS) == LeaseVerdict("hard", "size")
