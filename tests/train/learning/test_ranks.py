"""Two ranks, each with a part of the model, act as one learner."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

import forked  # noqa: E402
import learner_states  # noqa: E402
import on_ranks  # noqa: E402
import random_models  # noqa: E402

ROOT = Path(__file__).parents[3]


def run_on_two(job, path, size=2):
    """Run two ranks, or more, started as torchrun starts them, and return the exit status and the output of each.

    A rank waits at most a minute for the other one; two minutes more mean that it hangs.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    common = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    ranks = [
        forked.Popen(
            [sys.executable, on_ranks.__file__, job, str(path)],
            env={**os.environ, **common, "RANK": str(rank), "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(size)
    ]
    silent = int(job[-1]) if job.startswith("silence") else None
    try:
        others = {rank: ranks[rank].communicate(timeout=180)[0] for rank in range(size) if rank != silent}
        if silent is not None:
            ranks[silent].kill()
        outputs = [others[rank] if rank in others else ranks[rank].communicate()[0] for rank in range(size)]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    return [(rank.returncode, output) for rank, output in zip(ranks, outputs, strict=True)]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Return the results of the same run on one rank and on two, and the folder of the latter."""
    path = random_models.folder(tmp_path_factory.mktemp("ranks") / "model")
    ended = run_on_two("train", path)
    assert [status for status, _ in ended] == [0, 0], ended
    return on_ranks.train(path), torch.load(Path(path).parent / "made"), Path(path).parent


def assert_same(ones, twos, tolerance=1e-5):
    assert ones.keys() == twos.keys()
    for name in ones:
        torch.testing.assert_close(ones[name], twos[name], rtol=0, atol=tolerance)


def test_two_ranks_make_the_same_updates_as_one(both):
    one, two, _ = both
    assert len(one["figures"]) == 6
    for ours, theirs in zip(one["figures"] + one["lora_figures"], two["figures"] + two["lora_figures"], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-6)
    assert_same(one["weights"], two["weights"])
    assert_same(one["lora_weights"], two["lora_weights"])


def test_in_half_precision_two_ranks_give_nearly_the_updates_of_one(both):
    one, two, _ = both
    pairs = [*zip(one["half_figures"], two["half_figures"], strict=True)]
    pairs += zip(one["half_lora_figures"], two["half_lora_figures"], strict=True)
    for ours, theirs in pairs:
        assert ours["entropy"] == pytest.approx(theirs["entropy"], rel=0.05)
        assert ours["grad_norm"] == pytest.approx(theirs["grad_norm"], rel=0.25)
    assert {weight.dtype for weight in two["half_weights"].values()} == {torch.bfloat16}


def test_the_states_that_two_ranks_write_are_parts_of_that_of_one(both):
    one, two, _ = both
    for kind in ("weights", "moments", "reference"):
        assert_same(one["state"][kind], two["state"][kind])


def test_log_probabilities_of_two_ranks_come_back_in_order(both):
    one, two, _ = both
    for ours, theirs in zip(one["logprobs"], two["logprobs"], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)


def test_two_ranks_save_a_whole_model(both):
    from transformers import AutoModelForCausalLM

    _, two, folder = both
    saved = AutoModelForCausalLM.from_pretrained(folder / "saved-2", dtype=torch.float32)
    assert_same(dict(saved.named_parameters()), two["weights"], tolerance=0)


def test_one_rank_continues_from_the_state_of_two(both):
    one, _, folder = both
    resumed = on_ranks.learner(str(folder / "model"))
    resumed.load_state(folder / "halfway-2")
    figures = on_ranks.updates(resumed, [1])
    for ours, theirs in zip(figures, one["figures"][4:], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-6)


def test_each_rank_writes_its_half_of_each_tensor(both):
    from torch.distributed.checkpoint.filesystem import FileSystemReader

    _, _, folder = both
    written = FileSystemReader(folder / "halfway-2").read_metadata()
    assert {place.relative_path for place in written.storage_data.values()} == {"__0_0.distcp", "__1_0.distcp"}
    for name, tensor in written.state_dict_metadata.items():
        if len(tensor.size):  # all but numbers of updates
            assert [chunk.sizes[0] for chunk in tensor.chunks] in ([32, 32], [19, 18], [24, 24], [16, 16], [8, 8]), name


@pytest.mark.thorough
def test_four_ranks_that_are_divided_make_the_same_updates_as_one(tmp_path):
    """Two ranks share a copy of the weights, or each row."""
    path = random_models.folder(tmp_path / "model")
    ended = run_on_two("divide", path, size=4)
    assert [status for status, _ in ended] == [0] * 4, ended
    one = on_ranks.learner(path)
    figures = on_ranks.updates(one, [0, 3])
    for way in ("copies", "context"):
        four = torch.load(tmp_path / way)
        for ours, theirs in zip(figures, four["figures"], strict=True):
            assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-6)
        assert_same(dict(one.export_weights()), four["weights"])
        for kind in ("weights", "moments", "reference"):
            assert_same(learner_states.state_of(one)[kind], four["state"][kind])


def test_experts_of_two_ranks_are_those_of_the_file(both):
    from safetensors.torch import load_file

    _, two, folder = both
    assert_same(two["expert_weights"], load_file(folder / "moe" / "model.safetensors"), tolerance=0)


@pytest.mark.thorough
def test_no_rank_holds_the_whole_model(tmp_path):
    path = random_models.folder(
        tmp_path / "model", hidden_size=512, intermediate_size=2048, num_hidden_layers=8, vocab_size=4096
    )
    whole = (tmp_path / "model" / "model.safetensors").stat().st_size
    ended = run_on_two("memory", path)
    assert [status for status, _ in ended] == [0, 0], ended
    for rank in range(2):
        grown = json.loads((tmp_path / f"memory-{rank}").read_text())
        assert 0.4 * whole < grown["loaded"] < 0.75 * whole  # half, and the tensors that are being read
        assert grown["handed over"] < 0.95 * whole  # half, and a part of a few MB in several copies


@pytest.mark.parametrize("lost", [0, pytest.param(1, marks=pytest.mark.thorough)])
def test_a_lost_rank_ends_the_other_with_an_error_that_names_it(tmp_path, lost):
    ended = run_on_two(f"lose-{lost}", random_models.folder(tmp_path / "model"))
    left = 1 - lost
    assert ended[lost][0] == -signal.SIGKILL
    assert ended[left][0] == 1
    assert re.search(
        rf"LearnerError: rank {lost} of 2 .*is lost(: its process \d+ has ended|, or its mach)", ended[left][1]
    )


@pytest.mark.thorough
@pytest.mark.parametrize("silent", [pytest.param(0, marks=pytest.mark.thorough), 1])
def test_a_rank_that_falls_silent_ends_the_other_which_names_it(tmp_path, silent):
    ended = run_on_two(f"silence-{silent}", random_models.folder(tmp_path / "model"))
    left = 1 - silent
    assert ended[left][0] == 1, ended
    assert re.search(rf"rank {silent} of 2 (on .* )?is lost: no heartbeat for 5 s", ended[left][1]), ended
