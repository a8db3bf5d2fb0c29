"""Files of samples are read in every form that EvalPlus and LiveCodeBench write, and mistakes are named by place."""

import gzip
import json

import pytest

from curate.errors import CurateError
from sandbox import Case, Suite
from train.evaluation.judges.judge import SuiteJudge
from train.evaluation.judges.math_judge import MathJudge
from train.evaluation.sample_files import read_sample_file
from train.evaluation.suites.suite import Exercise


def written(folder, *entries):
    path = folder / "samples.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def exercises(*ids, judge=None):
    return tuple(Exercise(id, "?", judge or SuiteJudge(Suite([Case("", "")]))) for id in ids)


@pytest.mark.parametrize(
    ("entries", "extraction", "field", "texts"),
    [
        pytest.param(
            [{"task_id": "HumanEval/0", "solution": "a"}, {"task_id": "HumanEval/0", "solution": ""}],
            None, "solution", {"HumanEval/0": ("a", "")}, id="EvalPlus",
        ),
        pytest.param(
            [{"task_id": "HumanEval/0", "completion": "b", "solution": "a", "_identifier": "x"}],
            None, "solution", {"HumanEval/0": ("a",)}, id="a solution before a completion, as in EvalPlus",
        ),
        pytest.param(
            [{"task_id": 11, "completion": "b"}], None, "completion", {"11": ("b",)}, id="HumanEval's completions"
        ),
        pytest.param(
            [{"question_id": "abc301_a", "code_list": ["a", "b"], "output_list": ["x", "y"], "pass@1": 0.5}],
            None, "code_list", {"abc301_a": ("a", "b")}, id="LiveCodeBench",
        ),
        pytest.param(
            [{"question_id": "abc301_a", "code_list": ["a", "b"], "output_list": ["x", "y"]}],
            "lcb", "output_list", {"abc301_a": ("x", "y")}, id="LiveCodeBench's outputs",
        ),
    ],
)  # fmt: skip
def test_samples_are_read_from_lines_and_from_a_list(tmp_path, entries, extraction, field, texts):
    path = written(tmp_path, *entries)
    of_lines = read_sample_file(path, extraction)
    assert (of_lines.field, of_lines.texts) == (field, texts)
    path.write_text(json.dumps(entries, indent=1))
    of_list = read_sample_file(path, extraction)
    assert (of_list.field, of_list.texts) == (field, texts)


def test_a_folder_of_evalplus_has_a_program_in_each_file(tmp_path):
    for name, text in {
        "HumanEval_0/0.py": "a",
        "HumanEval_0/10.py": "c",
        "HumanEval_0/2.py": "b",
        "x.json": "",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = read_sample_file(tmp_path)
    assert (found.field, found.texts) == ("solution", {"HumanEval/0": ("a", "b", "c")})


def test_a_file_may_be_compressed_and_has_a_name(tmp_path):
    path = tmp_path / "model_temp_0.0.jsonl.gz"
    path.write_bytes(gzip.compress(b'\n{"task_id": "a", "solution": "b"}\n\n'))
    assert read_sample_file(path).name == "model_temp_0.0"


ONE = '{"task_id": "a", "solution": "b"}\n'


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", r"samples\.jsonl has no samples"),
        ("[]", "has no samples"),
        (ONE + "{", r"line 2: not JSON"),
        (ONE + "5", r"line 2: Expected `object`, got `int`"),
        ("[\n 5,\n", "not a JSON list: Expecting value: line 3"),
        ('[["a"]]', "entry 1: Expected `object`, got `array`"),
        (ONE + '{"task_id": "a", "solution": 5}', r"line 2: Expected `str \| null`, got `int` - at `\$.solution`"),
        (ONE + '{"task_id": "a", "solution": null}', "line 2: it names no task, or has no samples"),
        (ONE + '{"solution": "b"}', "line 2: it names no task, or has no samples"),
        (ONE + '\n{"task_id": "c", "completion": "b"}', "line 3: c has completion, but earlier entries have solution"),
        (
            '[{"question_id": 5, "code_list": [""]}, {"question_id": 5, "code_list": [""]}]',
            "entry 2: 5 is in entry 1 already. Put its samples into one code_list",
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_named_by_its_place(tmp_path, content, said):
    path = tmp_path / "samples.jsonl"
    path.write_text(content)
    with pytest.raises(CurateError, match=said):
        read_sample_file(path)


def test_tasks_are_found_by_their_ids_with_or_without_the_name_of_the_suite(tmp_path):
    found = read_sample_file(
        written(tmp_path, {"task_id": "Mbpp/2", "solution": "a"}, {"task_id": 3, "solution": "b"})
    ).assign(exercises("Mbpp/2", "Mbpp/3"))
    assert found == {"Mbpp/2": ("a",), "Mbpp/3": ("b",)}


def test_what_two_problems_could_mean_is_not_guessed(tmp_path):
    file = read_sample_file(written(tmp_path, {"task_id": "1", "solution": "a"}))
    with pytest.raises(
        CurateError, match=r"no samples for these problems. The file has tasks 1 \(line 1\); .* apps/1, taco/1"
    ):
        file.assign(exercises("apps/1", "taco/1"))


def test_a_problem_without_samples_is_an_error(tmp_path):
    file = read_sample_file(written(tmp_path, {"task_id": "a/1", "solution": "x"}))
    with pytest.raises(CurateError, match=r"no samples for 2 of 3 problems: a/2, a/3\. .* an empty program"):
        file.assign(exercises("a/1", "a/2", "a/3"))
    empty = read_sample_file(written(tmp_path, {"question_id": "1", "code_list": []}))
    with pytest.raises(CurateError, match="no samples for 1 of 1 problems: a/1"):
        empty.assign(exercises("a/1"))


def test_other_tasks_and_uneven_numbers_are_told(tmp_path, caplog):
    lines = [{"task_id": task, "solution": "x"} for task in ("a", "b", "a", "z", "a")]
    file = read_sample_file(written(tmp_path, *lines))
    assert file.assign(exercises("a", "b")) == {"a": ("x", "x", "x"), "b": ("x",)}
    assert "z (line 4) are not among the problems and are not judged" in caplog.text
    assert "the number of samples of a problem is 1 to 3, so pass@j is known only up to j = 1" in caplog.text
    assert file.assign(exercises("a", "b"), 1) == {"a": ("x",), "b": ("x",)}
    with pytest.raises(CurateError, match=r"fewer than --k 2 samples of b \(1\)\. Leave --k out"):
        file.assign(exercises("a", "b"), 2)


def test_questions_whose_answers_are_no_programs_are_refused(tmp_path):
    file = read_sample_file(written(tmp_path, {"task_id": "aime2024/1", "solution": "33"}))
    with pytest.raises(CurateError, match="aime2024/1 is not judged by a program"):
        file.assign(exercises("aime2024/1", judge=MathJudge("33")))


@pytest.mark.parametrize(
    ("entry", "protocol", "given", "rule"),
    [
        ({"code_list": ["x"], "output_list": ["y"]}, "lcb", {}, "whole"),
        ({"output_list": ["y"]}, None, {}, "curate"),
        ({"output_list": ["y"]}, "lcb", {}, "lcb"),
        ({"output_list": ["y"]}, "lcb", {"extraction": "curate"}, "curate"),
        ({"solution": "y"}, None, {"extraction": "evalplus"}, "evalplus"),
    ],
)
def test_programs_are_judged_as_they_are_and_outputs_are_searched(tmp_path, entry, protocol, given, rule):
    file = read_sample_file(written(tmp_path, {"question_id": "a", **entry}), given.get("extraction"))
    used = file.resolve_settings(protocol, "lcb", given).suite_settings
    assert (used.extraction, used.test_seconds) == (rule, 6.0 if protocol else None)


def test_completions_need_a_suite_whose_prompts_they_continue(tmp_path):
    file = read_sample_file(written(tmp_path, {"task_id": "1", "completion": "x"}))
    for suite, name in (("lcb", "lcb"), ("", "a suite without a name")):
        with pytest.raises(
            CurateError, match=f"completions, which continue the prompts of humaneval, .* not of {name}"
        ):
            file.resolve_settings(None, suite, {})
