"""The tiny model is evaluated by the real vLLM and the real sandbox."""

import json
import threading
from functools import partial
from itertools import islice
from math import isnan

import pytest
import tiny_world
from curate_command import curate
from source_rows import write_jsonl

from curate.errors import CurateError
from curate.prompt import PromptFormat
from sandbox import Case, RefereeError, Sandbox, SandboxError, Suite
from train.engine_options import EngineOptions, RequestOptions
from train.errors import SamplerError
from train.evaluation.evaluate import compute_sample_fingerprint, evaluate
from train.evaluation.exercises import read_exercises
from train.evaluation.judges.judge import SuiteJudge
from train.evaluation.result_metadata import list_sample_dependencies
from train.evaluation.sample_store import SampleStore
from train.evaluation.suites.suite import Exercise
from train.sampling.open_engine import open_sampler
from train.sampling.protocol import SampledCompletion, SamplingParams

pytestmark = pytest.mark.filterwarnings("ignore")  # of vLLM, torch and transformers about each other

K = 8


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_jsonl(tmp_path_factory.mktemp("set") / "test.jsonl", tiny_world.rows())


@pytest.fixture(scope="module")
def asked(path):
    return read_exercises(str(path))


@pytest.fixture(scope="module")
def sample(tiny_model):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**tiny_world.ENVIRONMENT, "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}.items():
            patch.setenv(name, value)
        sampler = open_sampler(str(tiny_model))
        yield partial(sampler.sample, sampling=SamplingParams(max_tokens=tiny_world.MAX_TOKENS))
        sampler.close()


@pytest.fixture(scope="module")
def found(asked, sample, box):
    return evaluate(asked, sample, box, k=K)


def test_the_model_solves_the_problems_that_it_was_taught(found):
    numbers = found.summary
    assert (numbers.n_problems, numbers.n_samples, numbers.n_no_verdict) == (6, 6 * K, 0)
    solved = {problem.id.partition("/")[2]: problem.n_correct for problem in found.outcomes}
    assert min(solved["sum"], solved["double"]) >= K - 1
    assert 1 <= solved["product"] <= K - 1
    assert solved["difference"] == solved["larger"] == solved["smaller"] == 0
    assert numbers.pass_at_1 == pytest.approx(sum(solved.values()) / (6 * K))
    assert found.pass_at_k == pytest.approx(3 / 6)
    assert 0 <= numbers.low < numbers.pass_at_1 < numbers.high <= 1
    assert numbers.high - numbers.low > 0.3  # it has seen six problems
    assert numbers.n_truncated >= K - 1  # larger
    assert found.n_no_code >= K - 1  # smaller
    assert 5 < numbers.mean_tokens <= tiny_world.MAX_TOKENS


def test_its_metrics_are_shares(found):
    metrics = found.compute_metrics()
    assert metrics["eval/pass@1"] == found.summary.pass_at_1
    assert metrics[f"eval/pass@{K}"] == found.pass_at_k
    assert metrics["eval/clipped_ratio"] == found.summary.n_truncated / 48
    assert metrics["eval/no_signal"] == 0


def test_the_seed_determines_the_whole_evaluation(asked, sample, box, found):
    assert evaluate(asked, sample, box, k=K) == found


def test_an_interrupted_evaluation_samples_nothing_twice(asked, sample, box, found, tmp_path):
    class Interrupted(Exception):
        pass

    def some(prompts):
        yield from islice(sample(prompts), 20)
        raise Interrupted

    sampled = []

    def counted(prompts):
        for answer in sample(prompts):
            sampled.append(answer)
            yield answer

    counts = []
    with SampleStore(tmp_path / "samples.jsonl") as kept, pytest.raises(Interrupted):
        evaluate(asked, some, box, k=K, samples=kept, progress=lambda stage, done, total: counts.append(done))
    with SampleStore(tmp_path / "samples.jsonl") as kept:
        assert evaluate(asked, counted, box, k=K, samples=kept) == found
    assert 0 < len(sampled) <= 6 * K - counts[-1]
    with SampleStore(tmp_path / "samples.jsonl") as kept:  # further samples of each join those that are there
        sampled.clear()
        evaluate(asked, counted, box, k=K + 1, samples=kept)
        assert len(sampled) == 6
        evaluate(asked, counted, box, k=1, samples=kept, settings=["another model"])
        assert len(sampled) == 12


def answering(text, finish_reason="stop"):
    return lambda prompts: ((index, SampledCompletion(text, finish_reason, 5)) for index, _ in enumerate(prompts))


def test_a_cut_off_answer_is_judged_by_the_program_in_it(asked, box):
    (sum_,) = (one for one in asked if one.id.endswith("/sum"))
    found = evaluate([sum_], answering(tiny_world.PROBLEMS["sum"][1][0] + "\nAnd so", "length"), box, k=2)
    numbers = found.summary
    assert (numbers.pass_at_1, numbers.n_truncated, numbers.n_truncated_correct) == (1, 2, 2)
    assert found.compute_metrics()["eval/clipped_correct_ratio"] == 1


class Lost(Sandbox):
    def judge(self, program, suite, *, run_all=False):
        raise SandboxError("gone")


class WithoutReferee(Sandbox):
    def judge(self, program, suite, *, run_all=False):
        raise RefereeError("the referee failed")


def test_a_sample_without_a_verdict_is_not_a_zero(asked):
    with WithoutReferee(workers=1) as box:
        found = evaluate(asked[:1], answering("```python\nprint(1)\n```"), box, k=4)
        numbers = found.summary
        assert (numbers.n_samples, numbers.n_no_verdict, numbers.n_problems, found.pass_at_k) == (0, 4, 0, None)
        assert isnan(numbers.pass_at_1)
        assert isnan(numbers.low)


def test_a_sandbox_that_is_lost_for_good_ends_the_evaluation(asked):
    with Lost(workers=1) as box, pytest.raises(CurateError, match="the sandbox failed 3 times in a row"):
        evaluate(asked, answering("```python\nprint(1)\n```"), box, k=4)


def test_a_model_that_refuses_every_prompt_ends_the_evaluation(asked, box):
    def refusing(prompts):
        return ((index, ValueError("too long")) for index, _ in enumerate(prompts))

    with pytest.raises(SamplerError, match="refuses every prompt: too long"):
        evaluate(asked, refusing, box, k=K)
    assert evaluate(asked, refusing, box, k=1).summary.n_no_verdict == 6


def test_a_sampler_that_hangs_ends_the_evaluation(asked, box, monkeypatch):
    woken = threading.Event()

    def hanging(prompts):
        yield from islice(answering("I do not know.")(prompts), 2)
        woken.wait(60)

    monkeypatch.setattr("train.evaluation.evaluate._TIMEOUT_SECONDS", 0.2)
    with pytest.raises(SamplerError, match=r"timed out: the model has sent no completion for 0\.2 s"):
        evaluate(asked, hanging, box, k=1)
    woken.set()


def test_the_command_writes_what_it_prints(path, tiny_model, model_server, tmp_path):
    out = tmp_path / "results" / "tiny.json"
    words = ["evaluate", "--model", tiny_model, "--base-url", model_server, "--data", path, "--k", 4]
    words += ["--max-tokens", tiny_world.MAX_TOKENS, "--workers", 2, "--out", out]
    done = curate(*words, check=True)
    heading, head, numbers, *_ = done.stdout.splitlines()
    assert heading == f"tiny: {path.name}, 6 problems x 4, T 0.6, {tiny_world.MAX_TOKENS} tokens"
    assert head.split()[:3] == ["problems", "pass@1", "95%"]
    written = json.loads(out.read_text())
    assert written["schema"] == 2
    assert numbers.split()[:3] == ["all", "6", f"{written['numbers']['pass_at_1']:.3f}"]
    assert {len(row["bits"]) for row in written["problems"]} == {4}
    samples = [json.loads(line)[1] for line in (tmp_path / "results" / "tiny.json.samples.jsonl").open()]
    assert sum(row["verdict"] == "accepted" for row in samples) == sum(
        row["bits"].count("1") for row in written["problems"]
    )
    first = out.read_bytes()
    again = curate(*words)
    assert again.stdout == done.stdout
    assert out.read_bytes() == first


def test_the_result_names_prompt_and_engine_and_another_prompt_draws_other_samples(
    path, tiny_model, model_server, tmp_path
):
    out, template = tmp_path / "tiny.json", tmp_path / "form.jinja"
    template.write_text("Solve this:\n{{ statement }}\n")
    words = ["evaluate", "--model", tiny_model, "--base-url", model_server, "--data", path, "--k", 1, "--out", out]
    words += ["--max-tokens", tiny_world.MAX_TOKENS, "--workers", 2, "--engine", "concurrency=4"]
    forms = [[], ["--system", "Be brief.", "--template", template], ["--template-arg", "enable_thinking=false"]]
    for form in forms:
        curate(*words, *form, check=True)
        written = json.loads(out.read_text())
        assert written["engine"] == {"max_num_seqs": 4}
    assert written["prompt"] == {"template_arguments": {"enable_thinking": False}}
    samples = (tmp_path / "tiny.json.samples.jsonl").read_text().splitlines()
    assert len(samples) == 6 * len(forms)


def test_samples_of_the_default_prompt_have_the_names_that_they_always_had():
    """Existing journals continue."""
    exercise = Exercise("a", PromptFormat().build_chat("s", "", Suite([])), SuiteJudge(Suite([Case("1", "2")])))
    settings = list_sample_dependencies(
        "m", SamplingParams(), PromptFormat(), EngineOptions(8, {"tensor_parallel_size": 2})
    )
    assert compute_sample_fingerprint(exercise, settings, 0) == "4766e941eb5a8f20824bdf7c768cd79d"


def test_samples_that_were_asked_with_other_fields_have_other_names():
    def settings(**fields):
        engine = EngineOptions(request=RequestOptions(fields, max_seconds=9.0))
        return list_sample_dependencies("m", SamplingParams(), PromptFormat(), engine)

    assert settings() == list_sample_dependencies("m", SamplingParams(), PromptFormat(), EngineOptions())
    assert json.dumps(settings(a=1, b=2)) == json.dumps(settings(b=2, a=1))
    assert len({json.dumps(each) for each in (settings(), settings(a=1), settings(a=2), settings(a=None))}) == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--data", "/nowhere"], "no such file or folder"),
        (["--window", "soon"], "'soon' is not FROM..TO"),
        (["--base-url", "no"], "is not an address"),
    ],
)
def test_a_mistake_is_explained(path, words, said, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    done = curate("evaluate", "--model", tmp_path, "--data", path, *words)
    assert done.exit_code == 1
    assert said in done.output
