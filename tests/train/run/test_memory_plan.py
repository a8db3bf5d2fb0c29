"""The plan says what each role of a run needs, and refuses machines that have less."""

import pytest

pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

from train.config import list_presets, read_config  # noqa: E402
from train.errors import ConfigError  # noqa: E402
from train.run import fit  # noqa: E402
from train.run.memory import GB, Machines, estimate_memory_needs, format_memory_needs  # noqa: E402

_QWEN = {"vocab_size": 152064, "hidden_size": 5120, "num_attention_heads": 40, "num_key_value_heads": 8}
SHAPES = {  # models like those that the presets are for
    "1.5B": transformers.Qwen2Config(
        vocab_size=151936,
        hidden_size=1536,
        intermediate_size=8960,
        num_hidden_layers=28,
        num_attention_heads=12,
        num_key_value_heads=2,
        max_position_embeddings=131072,
        tie_word_embeddings=False,
    ),
    "7B": transformers.LlamaConfig(
        vocab_size=102400, hidden_size=4096, intermediate_size=11008, num_hidden_layers=30, num_attention_heads=32
    ),
    "14B": transformers.Qwen2Config(
        **_QWEN, intermediate_size=13824, num_hidden_layers=48, max_position_embeddings=131072
    ),
    "32B": transformers.Qwen2Config(
        **_QWEN, intermediate_size=27648, num_hidden_layers=64, max_position_embeddings=131072
    ),
}
OWN = ["evaluation.where=own", "evaluation.dataset=held_out"]
MACHINES = {  # as the presets' own comments name them
    "areal": ("14B", [Machines(8, 80, 600)]),
    "areal-boba2": ("14B", [Machines(8, 80, 600)]),
    "deepcoder-16k": ("14B", [Machines(8, 80, 600)]),
    "deepcoder-32k": ("14B", [Machines(8, 80, 600)]),
    "deepseekmath": ("7B", [Machines(8, 80, 400)]),
    "intellect2": ("32B", [Machines(32, 80, 500), Machines(64, 80, 500)]),
}


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shapes")

    def read(preset, size, *changes, machine=()):
        SHAPES[size].save_pretrained(folder / size)
        return read_config(None, changes, preset=preset, model=str(folder / size), dataset="data", machine=machine)

    return read


@pytest.mark.parametrize("preset", list_presets())
def test_a_preset_runs_on_the_machines_that_it_names(preset, config):
    size, named = MACHINES[preset]
    for machines in named:
        read = config(preset, size)
        fit.check_memory(read, machines)
        assert len(list(estimate_memory_needs(read, machines))) == (4 if machines.gpus > 8 else 3)


def test_an_engine_that_evaluates_beside_the_run_takes_its_gpus_from_the_learner(config):
    needs = estimate_memory_needs(config("deepcoder-16k", "14B", *OWN, "evaluation.gpus=[4,5]"), Machines(16, 80))
    told = list(format_memory_needs(list(needs)))
    assert [line.split(" GPUs")[0] for line in told[:3]] == ["each of 12", "each of 2 engine", "each of 2 evaluation"]
    assert "weights 29.5, cache of the longest completion 6.8" in told[2]  # one GPU for each, longer answers


@pytest.mark.parametrize(
    ("size", "changes", "machines", "words"),
    [
        pytest.param("32B", [], Machines(8), r"each of 6 GPUs needs \d+\.\d GB and has 80\. Lower", id="model"),
        pytest.param("14B", [], Machines(8, 24), "each of 6 GPUs needs .* and has 24", id="small GPUs"),
        pytest.param("14B", [], Machines(8, 80, 100), "first machine needs .* GB and has 100", id="memory"),
        pytest.param(
            "14B",
            [*OWN, "evaluation.gpus=[5]", "evaluation.memory_share=0.3"],
            Machines(16),
            "each of 1 evaluation GPUs needs .* and has 24. Raise evaluation",
            id="evaluation",
        ),
        pytest.param("14B", [*OWN, "evaluation.gpus=[9]"], Machines(8), "there is no GPU 9", id="ninth"),
        pytest.param("14B", [], Machines(4), "engine.gpus: there is no GPU 7", id="fewer GPUs"),
        pytest.param("14B", ["engine.gpus=[]", "engine.tensor_parallel=1", "engine.memory_share=0.5"], Machines(8),
                     "engine.gpus is empty, so the learner would get all 8 GPUs", id="no engine"),
        pytest.param("14B", ["engine.memory_share=0.2"], Machines(8), "engine GPUs needs .* and has 16", id="share"),
        pytest.param("14B", ["engine.gpus=[0, 1, 2, 3, 4, 5, 6, 7]"], Machines(8), "no GPU is left", id="no learner"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_words(size, changes, machines, words, config):
    with pytest.raises(ConfigError, match=words):
        fit.check_memory(config("deepcoder-16k", size, *changes), machines)


@pytest.mark.parametrize(
    ("preset", "size", "gpus"),
    [
        ("deepcoder-16k", "1.5B", 1),
        ("deepcoder-16k", "1.5B", 2),
        ("deepcoder-16k", "1.5B", 8),
        ("areal", "1.5B", 4),
        ("deepcoder-32k", "7B", 1),
    ],
)
def test_a_preset_is_fitted_to_the_gpus_that_there_are(preset, size, gpus, config):
    machines = Machines(gpus, 80, 1000)
    fitted = fit.fit_config(lambda changes: config(preset, size, machine=changes), machines)
    if (size, gpus) == ("7B", 1):  # its weights and gradients alone take 61 GB
        with pytest.raises(ConfigError, match=r"These values fit: .*--set model.lora_rank=32"):
            fit.check_memory(fitted, machines)
        return
    fit.check_memory(fitted, machines)
    changed = fit.find_changed_values(config(preset, size), fitted)
    assert changed.keys() <= {
        "rollout.pipeline", "engine.gpus", "engine.tensor_parallel", "engine.memory_share", "optimizer.offload"
    }  # fmt: skip
    assert (fitted.rollout.pipeline == "sync") == (gpus == 1)
    assert bool(fitted.engine.gpus) == (gpus > 1)


def test_what_the_user_has_chosen_stays_and_the_rest_is_fitted_to_it(config):
    def read(changes):
        return config("deepcoder-16k", "1.5B", "engine.memory_share=0.4", machine=changes)

    fitted = fit.fit_config(read, Machines(1))
    assert (fitted.engine.memory_share, fitted.rollout.pipeline) == (0.4, "sync")


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(["engine.gpus=[]", "engine.tensor_parallel=1"], id="an engine that is awake"),
        pytest.param(["engine.gpus=[]", "engine.tensor_parallel=1", "rollout.pipeline=sync"], id="a large share"),
        pytest.param([], id="GPUs that there are not"),
    ],
)
def test_the_advice_leads_to_a_run_that_fits(changes, config):
    with pytest.raises(ConfigError, match="These values fit: ") as refusal:
        fit.check_memory(config("deepcoder-16k", "1.5B", *changes), Machines(1))
    advice = [word for word in str(refusal.value).partition("These values fit: ")[2].split("--set ") if word]
    fit.check_memory(config("deepcoder-16k", "1.5B", *changes, *map(str.strip, advice)), Machines(1))


def test_a_run_on_several_gpus_is_started_with_a_rank_for_each_of_the_learner(config, monkeypatch):
    read = config("deepcoder-16k", "1.5B")
    monkeypatch.setenv("WORLD_SIZE", "6")
    fit.check_ranks(read, Machines(8))
    monkeypatch.setenv("WORLD_SIZE", "8")
    with pytest.raises(ConfigError, match="the learner has 6 of 8 GPUs, and 8 ranks .* torchrun --nproc-per-node 6 "):
        fit.check_ranks(read, Machines(8))


def test_an_engine_that_takes_turns_with_the_learner_needs_less(config):
    def total(pipeline):
        changes = ["engine.gpus=[]", "engine.tensor_parallel=1", "engine.memory_share=0.5", "model.lora_rank=16"]
        found = estimate_memory_needs(
            config("deepcoder-16k", "14B", *changes, f"rollout.pipeline={pipeline}"), Machines(1)
        )
        return max(need.total for need in found if "GPU" in need.scope)

    assert total("sync") + 10 * GB < total("one-off")


def test_lora_needs_hardly_more_than_the_model(config):
    full, lora = (
        next(iter(estimate_memory_needs(config("deepcoder-16k", "14B", f"model.lora_rank={rank}"), Machines(8)))).total
        for rank in (0, 16)
    )
    assert full - lora > 25 * GB


def test_ranks_that_cannot_share_rows_are_refused_and_those_that_can_need_less(config):
    with pytest.raises(ConfigError, match=r"ranks\.context = 4: the number of the learner's GPUs, 6, is not a mult"):
        list(estimate_memory_needs(config("deepcoder-16k", "14B", "ranks.context=4"), Machines(8)))
    alone, shared = (
        next(iter(estimate_memory_needs(config("deepcoder-16k", "14B", f"ranks.context={ranks}"), Machines(8))))
        for ranks in (1, 2)
    )
    saved = alone.bytes_by_purpose["activations"] - shared.bytes_by_purpose["activations"]
    assert saved > 48 * 10_000 * 5120 * 2  # half of what its 48 layers hand on, of 20,000 tokens


def test_the_planner_divides_the_machine_that_a_preset_names(config):
    from train.planning import split
    from train.planning.engine import GPUS

    cluster = split.build_cluster(config("areal", "14B"), GPUS["h100"], 8)
    assert 2 < cluster.min_learner_gpus < 8


def test_weights_for_workers_elsewhere_are_kept_in_two_versions(config):
    def kept(*changes):
        *_, host = estimate_memory_needs(config("areal", "14B", "workers.local=false", *changes), Machines(8))
        return host.bytes_by_purpose["weights for engines"]

    assert kept("workers.listen=0.0.0.0:8700") == pytest.approx(2 * 29.54 * GB, rel=0.01)


@pytest.fixture(scope="module")
def reward_model(tmp_path_factory):
    """Return the folder of a reward model of 7B, without its weights."""
    folder = tmp_path_factory.mktemp("judge")
    settings = transformers.LlamaConfig(**SHAPES["7B"].to_diff_dict() | {"num_labels": 1})
    settings.architectures = ["LlamaForSequenceClassification"]
    settings.save_pretrained(folder)
    (folder / "tokenizer.json").write_text("{}")
    return folder


@pytest.mark.parametrize(
    ("device", "scope", "size"),
    [
        pytest.param("cpu", "first machine", "reward model 28.", id="CPU"),
        pytest.param("", "each of 4 GPUs", "reward model 15.", id="GPU of the learner"),
        pytest.param("cuda:3", "GPU of reward model", "reward model 15.", id="GPU of its own"),
    ],
)
def test_a_reward_model_takes_memory_of_its_device(device, scope, size, config, reward_model):
    changes = f"reward.model={reward_model}", f"reward.model_device={device}"
    told = list(
        format_memory_needs(list(estimate_memory_needs(config("deepseekmath", "7B", *changes), Machines(8, 80, 400))))
    )
    assert [line.split("  ")[0] for line in told if "reward model " in line] == [scope]
    assert any(size in line for line in told)
    assert any(line.startswith("each of 3 GPUs") for line in told) == (device == "cuda:3")


def test_a_reward_model_has_no_gpu_of_an_engine(config, reward_model):
    with pytest.raises(ConfigError, match='reward.model_device = "cuda:4" is the GPU of an engine'):
        config("deepseekmath", "7B", f"reward.model={reward_model}", "reward.model_device=cuda:4")


def test_a_reward_model_in_training_takes_16_bytes_for_each_weight(config, reward_model):
    changes = f"reward.model={reward_model}", "reward.model_device=cuda:3", "reward.model_train_steps=5"
    needs = {
        need.scope: need
        for need in estimate_memory_needs(config("deepseekmath", "7B", *changes), Machines(8, 200, 400))
    }
    assert 100 * GB < needs["GPU of reward model"].total < 112 * GB
