"""What is kept of samples outlives a kill, a power cut and other tests."""

import json
from dataclasses import replace

import pytest
import tiny_world

from curate.errors import CurateError
from sandbox import Case, Limits, RefereeError, Sandbox, Suite
from train.evaluation.evaluate import evaluate
from train.evaluation.judges.judge import SuiteJudge
from train.evaluation.sample_store import SampleStore, get_unjudged_path, iterate_samples
from train.evaluation.suites.suite import Exercise
from train.sampling.protocol import SampledCompletion

SUMS = tiny_world.fenced("print(sum(map(int, input().split())))")
DOUBLES = tiny_world.fenced("print(2 * int(input().split()[0]))")


def exercise(expected):
    suite = Suite([Case("3 4\n", f"{expected}\n")])
    return Exercise("a", [{"role": "user", "content": "Which one?"}], SuiteJudge(suite))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "r.json.samples.jsonl"


def model(prompts):
    for index, (_, seed) in enumerate(prompts):
        yield index, SampledCompletion(SUMS if seed % 2 else DOUBLES, "stop", 5)


def silent_model(prompts):
    raise AssertionError("it was asked")


def bits(found):
    return found.outcomes[0].to_json()["bits"]


def evaluated(path, expected, box, sample, **options):
    with SampleStore(path) as kept:
        return evaluate([exercise(expected)], sample, box, k=6, samples=kept, **options)


def test_other_tests_judge_the_kept_answers_again(path, box):
    first = evaluated(path, 7, box, model)
    assert {"0", "1"} == set(bits(first))
    second = evaluated(path, 6, box, silent_model)
    assert bits(second) == bits(first).translate(str.maketrans("01", "10"))
    assert second == evaluate([exercise(6)], model, box, k=6)
    lines = path.read_text().splitlines()
    assert len(lines) == 12  # nothing that was written is changed
    assert evaluated(path, 6, box, silent_model) == second
    assert path.read_text().splitlines() == lines


def test_other_packages_judge_the_kept_answers_again(path, box):
    first = evaluated(path, 7, box, model, verdict_inputs=["a package"])
    assert evaluated(path, 7, box, silent_model).outcomes == first.outcomes
    assert len(path.read_text().splitlines()) == 12


HANGS = tiny_world.fenced("while True: pass")


def test_a_time_limit_that_counted_by_another_rule_is_judged_again_and_nothing_else(path, box):
    limits = Limits(wall_seconds=0.1)
    suite = Suite([Case("3 4\n", "7\n")], limits=limits)
    slow = Exercise("a", [{"role": "user", "content": "Which one?"}], SuiteJudge(suite))

    def sometimes_hangs(prompts):
        for index, (_, seed) in enumerate(prompts):
            yield index, SampledCompletion(SUMS if seed % 2 else HANGS, "stop", 5)

    def run(sample):
        with SampleStore(path) as kept:
            return evaluate([slow], sample, box, k=6, samples=kept)

    first = run(sometimes_hangs)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    (usual,) = {record["judge"] for _, record in lines if record["verdict"] == "accepted"}
    (of_time_limits,) = {record["judge"] for _, record in lines if record["verdict"] == "time_limit"}
    assert run(silent_model) == first
    assert len(path.read_text().splitlines()) == 6
    path.write_text(path.read_text().replace(of_time_limits, usual))  # as all verdicts were kept once
    assert run(silent_model) == first
    again = [json.loads(line) for line in path.read_text().splitlines()[6:]]
    assert [record["verdict"] for _, record in again] == ["time_limit"] * bits(first).count("0")


class WithoutReferee(Sandbox):
    def judge(self, program, suite, *, run_all=False):
        raise RefereeError("the referee failed")


def test_answers_without_a_verdict_are_kept_and_judged_later(path, box):
    with WithoutReferee(workers=1) as broken:
        assert evaluated(path, 7, broken, model).summary.n_no_verdict == 6
    assert len(get_unjudged_path(path).read_text().splitlines()) == 6
    assert evaluated(path, 7, box, silent_model) == evaluate([exercise(7)], model, box, k=6)
    assert not get_unjudged_path(path).exists()


@pytest.mark.parametrize("lost_bytes", [1, 40, 400])
def test_a_line_that_was_not_written_whole_loses_no_answer(path, box, lost_bytes):
    """The machine stops while the last of the answers is judged again."""
    evaluated(path, 7, box, model)
    second = evaluated(path, 6, box, silent_model)
    path.write_bytes(path.read_bytes()[:-lost_bytes])
    assert evaluated(path, 6, box, silent_model) == second


@pytest.mark.parametrize("line", ["\0" * 40, "[3]", '["key", {"id": "a"}]'], ids=["NULs", "another list", "no sample"])
def test_a_damaged_line_is_refused_and_once_deleted_costs_one_sample(path, box, line):
    first = evaluated(path, 7, box, model)
    whole = path.read_text()
    key = json.loads(whole.splitlines()[2])[0]
    lines = whole.splitlines(keepends=True)
    lines[2] = line.replace("key", key) + "\n"
    path.write_text("".join(lines))
    with pytest.raises(CurateError, match="r.json.samples.jsonl is damaged: no record at line 3.* sed -i '3d' "):
        evaluated(path, 7, box, silent_model)
    assert path.read_text() == "".join(lines)
    assert not get_unjudged_path(path).exists()
    path.write_text("".join(lines[:2] + lines[3:]))
    n_asked = 0

    def counted_model(prompts):
        nonlocal n_asked
        for index, answer in model(prompts):
            n_asked += 1
            yield index, answer

    assert evaluated(path, 7, box, counted_model) == first
    assert n_asked == 1


def test_one_process_at_a_time_adds_samples(path):
    with SampleStore(path), pytest.raises(CurateError, match="another command is writing to .*r.json.samples.jsonl"):
        SampleStore(path)
    assert not list(path.parent.iterdir())  # it had no sample


def test_a_record_says_all_that_is_known(path, box):
    evaluated(path, 7, box, model)
    key, record = json.loads(path.read_text().splitlines()[0])
    assert record.keys() == {"id", "number", "text", "n_tokens", "truncated", "verdict", "judge"}
    read = dict(iterate_samples(path, [key]))[key]
    assert (read.id, read.n_tokens, read.truncated) == ("a", 5, False)
    thinking = replace(read, reasoning="Let me see", n_prompt_tokens=12)
    with SampleStore(path) as kept:
        kept.add("another", thinking)
        assert kept.get("another") == thinking
