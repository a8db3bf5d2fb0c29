"""A configuration is read completely, or refused with an explanation."""

from pathlib import Path

import pytest

from sandbox import Limits, Outcome, Program, SandboxOptions
from train import config
from train.config import Config, DataConfig, ModelConfig, SandboxConfig, with_sandbox
from train.config.checks import find_config_warnings
from train.config.describe import describe_sections
from train.config.read import read_preset
from train.errors import ConfigError
from train.rollouts.rewards import open_sandbox

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = '[model]\npath = "m"\n[data]\ndataset = "d"\n'
FRESH = "rollout.staleness=0"
OWN = ["evaluation.where=own"]
ASYNC = ["rollout.pipeline=async", "objective.old=learner", "objective.truncation=2"]


def test_keys_that_a_file_leaves_out_have_their_defaults(file):
    assert config.read_config(file(SMALL)) == Config(ModelConfig("m"), DataConfig("d"))


@pytest.mark.parametrize("name", config.list_presets())
def test_a_preset_holds_only_what_differs_from_the_defaults(name):
    table = read_preset(name)
    for section in describe_sections():
        values = table.get(section.name, {})
        for part in values if isinstance(values, list) else [values]:
            assert [key.name for key in section.keys if key.name in part and part[key.name] == key.default] == []


def test_the_presets_are_those_of_the_papers(file):
    def read(name):
        return config.read_config(file(f'preset = "{name}"\n{SMALL}'))

    first, both = read("deepcoder-16k"), read("deepcoder-32k")
    assert (first.objective.clip_low, first.objective.clip_high, first.objective.kl) == (0.2, 0.28, 0.0)
    assert [stage.max_tokens for stage in both.stages] == [16384, 32768]
    assert read("deepseekmath").objective.kl == 0.04
    assert read("intellect2").objective.delta == 4
    asynchronous = {name: read(name) for name in ("areal", "areal-boba2", "intellect2")}
    assert {
        name: (each.rollout.pipeline, each.rollout.staleness, each.rollout.prompts, each.optimizer.minibatches)
        for name, each in asynchronous.items()
    } == {"areal": ("async", 4, 512, 4), "areal-boba2": ("async", 4, 128, 1), "intellect2": ("async", 2, 256, 8)}


@pytest.mark.parametrize("name", ["learn/grpo_plus.toml", "swarm/swarm.toml"])
def test_the_examples_of_grpo_plus_have_the_objective_of_deepcoder(name, file):
    given = config.read_config(EXAMPLES / name).objective
    published = config.read_config(file(SMALL), preset="deepcoder-16k").objective
    same = ("by_std", "clip_low", "clip_high", "delta", "kl", "entropy", "aggregation", "overlong")
    assert {key: getattr(given, key) for key in same} == {key: getattr(published, key) for key in same}


def test_the_file_replaces_its_preset_and_set_replaces_the_file(file):
    text = 'preset = "deepcoder-16k"\n' + SMALL + "[optimizer]\nlearning_rate = 2e-6\nminibatches = 4\n"
    read = config.read_config(file(text), ["optimizer.minibatches=8", "run.seed=3", "stages.0.max_tokens=99"])
    assert read.optimizer.learning_rate == 2e-6
    assert read.optimizer.minibatches == 8
    assert read.optimizer.row_tokens == 20000
    assert read.run.seed == 3
    assert read.stages[0].max_tokens == 99


def test_a_preset_alone_is_a_configuration(file):
    alone = config.read_config(None, ["run.seed=3"], preset="deepcoder-16k", model="m", dataset="d")
    assert alone == config.read_config(file('preset = "deepcoder-16k"\n' + SMALL), ["run.seed=3"])
    with pytest.raises(ConfigError, match="unknown preset 'grpo'; known are areal"):
        config.read_config(None, preset="grpo", model="m", dataset="d")


def test_options_replace_the_file_and_set_replaces_both(file):
    text = SMALL + "[optimizer]\nlearning_rate = 2e-6\n[engine]\nconcurrency = 1\n"
    read = config.read_config(
        file(text),
        ["data.dataset=f", "engine.concurrency=3"],
        preset="deepcoder-16k",
        model="n",
        dataset="e",
        engine={"concurrency": 2, "memory_share": 0.8},
    )
    assert (read.model.path, read.data.dataset) == ("n", "f")
    assert (read.optimizer.learning_rate, read.optimizer.row_tokens) == (2e-6, 20000)
    assert (read.engine.concurrency, read.engine.memory_share) == (3, 0.8)


def test_two_presets_are_refused_and_one_that_is_named_twice_is_not(file):
    path = file('preset = "deepcoder-16k"\n' + SMALL)
    with pytest.raises(ConfigError, match="Omit --preset, or delete the line preset = 'deepcoder-16k' in"):
        config.read_config(path, preset="intellect2")
    assert config.read_config(path, preset="deepcoder-16k") == config.read_config(path)


def test_a_function_can_stand_for_the_whole_section_of_rewards(file):
    read = config.read_config(file('preset = "intellect2"\nreward = "mine:judge"\n' + SMALL))
    assert (read.reward.function, read.reward.code, read.reward.length_budget) == ("mine:judge", 0.0, 0.3)


def test_datasets_are_mixed_by_tables_of_their_own(file):
    text = SMALL + 'weight = 3\n[[data.mixture]]\ndataset = "e.jsonl"\n[[data.mixture]]\ndataset = "f"\nweight = 0.5\n'
    read = config.read_config(file('preset = "deepcoder-16k"\n' + text))
    assert read.data.list_datasets() == [("d", 3.0), ("e.jsonl", 1.0), ("f", 0.5)]
    assert config.from_table(config.as_table(read)) == read


def test_set_takes_a_bare_word_as_a_string(file):
    assert (
        config.read_config(file(SMALL), ["rollout.pipeline=one-off", "engine.memory_share=0.5"]).rollout.pipeline
        == "one-off"
    )


def test_a_written_configuration_is_read_back_unchanged(file):
    for name in config.list_presets():
        read = config.read_config(file(f'preset = "{name}"\n{SMALL}'))
        assert config.from_table(config.as_table(read)) == read


@pytest.mark.parametrize(
    ("text", "changes", "words"),
    [
        pytest.param("[model]\npath = 'm'\n", [], "data.dataset is missing. Give --data, or", id="no section"),
        pytest.param("[model]\n[data]\ndataset='d'", [], "model.path is missing. Give --model, or", id="no key"),
        pytest.param(SMALL + "[optimiser]\n", [], "unknown section 'optimiser'; known are model", id="unknown section"),
        pytest.param(
            SMALL, ["rollout.prompt=1"], "unknown key rollout.prompt; known are rollout.prompts", id="unknown"
        ),
        pytest.param(SMALL, ["rollout.prompts=many"], "rollout.prompts must be of type int, not 'many'", id="type"),
        pytest.param(
            SMALL, ["rollout.prompts=-1"], "rollout.prompts must be a finite number >= 0, not -1", id="below zero"
        ),
        pytest.param(SMALL, ["run.seed=true"], "run.seed must be of type int, not True", id="a bool is not a number"),
        pytest.param(SMALL, [f"run.seed={2**63}"], f"run.seed must be at most {2**63 - 1}, not", id="beyond numbers"),
        pytest.param(SMALL, ["optimizer.learning_rate=nan"], "must be a finite number >= 0, not nan", id="nan"),
        pytest.param(SMALL, ["rollout.max_seconds=inf"], "must be a finite number >= 0, not inf", id="infinite"),
        pytest.param(SMALL, ["evaluation.k=0"], "evaluation.k must be at least 1, not 0", id="zero"),
        pytest.param(SMALL, [*ASYNC, "evaluation.where=idle"], "engines never wait for the learner", id="never idle"),
        pytest.param(SMALL, ["evaluation.gpus=[1]"], 'for evaluation.where = "own", not for "inside"', id="its GPUs"),
        pytest.param(SMALL, [*OWN, "engine.gpus=[1]", "evaluation.gpus=[1]"], "or one of engine.gpus", id="shared GPU"),
        pytest.param(SMALL, [*OWN, "engine.gpus=[1]"], "the GPUs of the evaluation engine", id="no GPU to evaluate"),
        pytest.param(
            SMALL, [*OWN, "evaluation.gpus=[1]", "evaluation.tensor_parallel=2"], "are not a multiple of", id="one of 2"
        ),
        pytest.param(SMALL, ["stages.0.max_tokens=0"], "stages.0.max_tokens must be at least 1, not 0", id="no tokens"),
        pytest.param(SMALL, ["rollout.temperature=3"], "rollout.temperature must be at most 2, not 3", id="hot"),
        pytest.param(SMALL, ["reward.length_budget=1"], "data.target_tokens", id="no lengths to reward"),
        pytest.param(SMALL, ["reward.overlong=1"], "overlong_buffer_tokens", id="buffer of more than an answer"),
        pytest.param(SMALL, ["reward.min_test_seconds=20"], "must be at most reward.max_test_seconds", id="limits"),
        pytest.param(SMALL, ["reward.function=mine"], 'must have the form "module:function", not', id="no function"),
        pytest.param(SMALL, ["reward.function=mine:code"], "Choose another name", id="a name of ours"),
        pytest.param(SMALL, ["data.weight=0"], "data.weight must be more than 0, not 0", id="no weight"),
        pytest.param(
            SMALL + "[[data.mixture]]\ndataset = 'e'\nweight = 0\n", [], "data.mixture.0.weight must be", id="no share"
        ),
        pytest.param(SMALL + "[[data.mixture]]\nweight = 2\n", [], "data.mixture.0.dataset is missing", id="no data"),
        pytest.param(
            SMALL, ["engine.hf_overrides={head_dtype='float32'}"], "model.head_dtype sets head_dtype", id="head"
        ),
        pytest.param(SMALL, ["objective.delta=-1"], "objective.delta must be a finite number >= 0", id="no bound"),
        pytest.param(SMALL, ["objective.delta=x"], "objective.delta must be of type float", id="an optional number"),
        pytest.param(SMALL, ["optimizer.betas=[0.9,'x']"], "optimizer.betas.1 must be of type float", id="in a list"),
        pytest.param(SMALL, ["evaluation.suites=lcb"], "evaluation.suites must be a list, not 'lcb'", id="no list"),
        pytest.param(SMALL, ["engine.options=3"], "engine.options must be a table, not 3", id="no options"),
        pytest.param(SMALL, ["sandbox.backend=http"], "sandbox: the backend http needs an address", id="no address"),
        pytest.param(SMALL, ["reward.model_device=gpu"], 'must be "cpu" or the name of a GPU', id="no device"),
        pytest.param(SMALL, ["reward.model_train_steps=5"], "needs reward.model, and", id="no reward model"),
        pytest.param(
            SMALL,
            ["reward.model=m", "reward.model_train_steps=5", "rollout.pipeline=one-off"],
            "completions would be scored while the model is trained",
            id="a model in training scores",
        ),
        pytest.param(SMALL, ["objective.reference_steps=5"], "needs objective.kl", id="no reference"),
        pytest.param(SMALL, ["objective.reference_mix=0.6"], "needs objective.reference_steps", id="no new reference"),
        pytest.param(SMALL, ["objective.mismatch_low=0.9"], "otherwise, every completion is masked", id="no bounds"),
        pytest.param(
            SMALL, ["rollout.pipeline=fast"], "must be one of 'sync', 'minibatch', 'one-off', 'async', not", id="choice"
        ),
        pytest.param(SMALL, ["optimizer.epochs=2", "rollout.pipeline=minibatch"], "no whole batch", id="again"),
        pytest.param(SMALL, ["rollout.pipeline=async"], 'old = "learner" and objective.truncation', id="no correction"),
        pytest.param(
            SMALL,
            ["rollout.pipeline=async", "objective.old=learner"],
            "nothing corrects for completions",
            id="no weights",
        ),
        pytest.param(SMALL, ["engine.transfer=nccl"], "name their GPUs in engine.gpus", id="no GPUs for NCCL"),
        pytest.param(
            SMALL, [*ASYNC, "engine.transfer=nccl", "engine.gpus=[1]"], "workers join and leave", id="NCCL to workers"
        ),
        pytest.param(
            SMALL,
            ["engine.parity=0.5"],
            "engine.parity must be 0 (the default bound) or at least 1",
            id="more than equal",
        ),
        pytest.param(SMALL, ["engine.gpus=[0,0]"], "engine.gpus names a GPU twice", id="one GPU twice"),
        pytest.param(SMALL, ["engine.mismatch_stop=0.001"], "the run warns before it stops", id="no warning"),
        pytest.param(SMALL, ["rollout.max_seconds=0.05"], "is too short for one completion of 96 tokens", id="no time"),
        pytest.param(SMALL, ["workers.local=false"], '[workers] is for rollout.pipeline = "async"', id="no workers"),
        pytest.param(
            SMALL, [*ASYNC, "workers.local=false"], "Set workers.listen to an address such as 0.0.0.0:7878", id="deaf"
        ),
        pytest.param(SMALL, [*ASYNC, "workers.listen=:7878"], "must be HOST:PORT", id="no host"),
        pytest.param(SMALL, ["optimizer.betas=[0.9]"], "must be a list of 2 values", id="list"),
        pytest.param(SMALL, ["rollout"], "give section.key=value", id="no value"),
        pytest.param(SMALL, ["stages.1.max_tokens=3"], "the number of stages is 1", id="no such stage"),
        pytest.param(SMALL, ["rollout.completions=1"], "a single completion has no advantage", id="no group"),
        pytest.param(SMALL, ["objective.delta=1.1"], "must be at least 1 + clip_high", id="delta"),
        pytest.param(SMALL, ["rollout.temperature=0"], "must be more than 0", id="greedy"),
        pytest.param(
            "preset = 'grpo'\n" + SMALL, [], "unknown preset 'grpo'; known are areal, areal-boba2", id="unknown preset"
        ),
        pytest.param("model = ", [], "is not TOML", id="not TOML"),
        pytest.param("model = 3\n[data]\ndataset='d'", [], "model must be a section, not 3", id="no table"),
    ],
)
def test_mistakes_are_explained(text, changes, words, file):
    with pytest.raises(ConfigError) as error:
        config.read_config(file(text), changes)
    assert words in str(error.value)


def test_an_asynchronous_run_corrects_for_stale_answers_if_it_can_have_any(file):
    for changes in (ASYNC, ["rollout.pipeline=async", FRESH]):
        assert config.read_config(file(SMALL), changes).rollout.pipeline == "async"


def test_only_asynchronous_runs_have_answers_that_can_be_interrupted(file):
    assert not config.read_config(file(SMALL), [*ASYNC, "rollout.interrupt=false"]).rollout.interrupt
    with pytest.raises(ConfigError, match='rollout.interrupt = false is for rollout.pipeline = "async"'):
        config.read_config(file(SMALL), ["rollout.interrupt=false"])


@pytest.mark.parametrize(("staleness", "words"), [(4, []), (5, ["--set rollout.staleness=4"])])
def test_more_staleness_than_is_proven_is_doubted(staleness, words, file):
    read = config.read_config(file(SMALL), [*ASYNC, f"rollout.staleness={staleness}", "engine.gpus=[1]"])
    assert [word for word, doubt in zip(words, find_config_warnings(read), strict=True) if word in doubt] == words


@pytest.mark.parametrize(
    ("changes", "n"),
    [([], 1), (["engine.kind=transformers"], 0), (["evaluation.memory_share=0.4"], 0), (["evaluation.gpus=[1]"], 0)],
)
def test_two_engines_that_need_more_than_a_gpu_are_doubted(changes, n, file):
    beside = ["evaluation.where=own", 'evaluation.suites=["lcb"]', *changes]
    found = list(find_config_warnings(config.read_config(file(SMALL), beside)))
    assert len(found) == n
    assert all("use 140% of the memory" in doubt for doubt in found)


@pytest.mark.parametrize(
    ("changes", "n"),
    [([], 0), (["rollout.pipeline=one-off"], 1), (ASYNC, 1), ([*ASYNC, "engine.gpus=[1]"], 0)],
)
def test_an_engine_that_works_while_the_learner_has_its_gpu_is_doubted(changes, n, file):
    found = list(find_config_warnings(config.read_config(file(SMALL), changes)))
    assert ["--set rollout.pipeline=sync" in doubt for doubt in found] == [True] * n


@pytest.mark.parametrize(("n_gpus", "dtype", "bound"), [(0, "float32", 1.001), (1, "bfloat16", 1.05)])
def test_the_precision_and_the_bound_of_parity_are_those_of_the_device_unless_named(
    n_gpus, dtype, bound, file, monkeypatch
):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_gpus)
    of_device = config.read_config(file(SMALL))
    assert (of_device.model.dtype, of_device.max_parity_error) == (dtype, bound)
    named = config.read_config(file(SMALL), ["model.dtype=float32"])
    assert (named.model.dtype, named.max_parity_error) == ("float32", 1.001)
    assert config.read_config(file(SMALL), ["engine.parity=1.2"]).max_parity_error == 1.2


@pytest.mark.parametrize("section", ["engine", "evaluation"])
def test_an_engine_has_no_more_than_a_whole_gpu(section, file):
    with pytest.raises(ConfigError, match=rf"{section}\.memory_share must be at most 1"):
        config.read_config(file(SMALL), [f"{section}.memory_share=1.5"])


def test_a_file_may_begin_with_a_byte_order_mark(file):
    assert config.read_config(file("\ufeff" + SMALL)) == config.read_config(file(SMALL))


def test_a_missing_file_is_explained(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        config.read_config(tmp_path / "none.toml")
    (tmp_path / "model.bin").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="is not a text file"):
        config.read_config(tmp_path / "model.bin")


def test_options_of_the_command_replace_the_section_and_another_backend_drops_the_address():
    config = Config(
        ModelConfig("m"), DataConfig("d"), sandbox=SandboxConfig(backend="ray", address="head:6379", workers=3)
    )
    assert with_sandbox(config, {}) == config
    assert with_sandbox(config, {"backend": "local"}).sandbox == SandboxConfig(workers=3)
    assert with_sandbox(config, {"workers": 5}).sandbox.to_sandbox_options() == SandboxOptions(
        "ray", "head:6379", workers=5
    )
    with pytest.raises(ConfigError, match="sandbox: an image is for the backend docker, not for ray"):
        with_sandbox(config, {"image": "mine"})


def test_programs_get_no_more_than_the_operator_allows(file):
    read = config.read_config(file(SMALL + "[limits]\nmemory_mb = 150\n"), ["limits.wall_seconds=1"])
    with open_sandbox(read.sandbox, read.limits) as box:
        hog = Program("x = bytearray(b'x' * (400 << 20))")
        assert box.run(hog, limits=Limits(memory_mb=10**6)).outcome is Outcome.OUT_OF_MEMORY
        assert box.run(Program("while True: pass"), limits=Limits(wall_seconds=60)).outcome is Outcome.TIMED_OUT
    with pytest.raises(ConfigError, match="limits: .*wall_seconds"):
        open_sandbox(read.sandbox, config.ProgramLimitsConfig(wall_seconds=1e9))
    with pytest.raises(ConfigError, match="unknown key limits.memory"):
        config.read_config(file(SMALL + "[limits]\nmemory = 150\n"))
