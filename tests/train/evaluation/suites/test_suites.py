"""Suites are read from their published rows, and a file that two of them could read is refused."""

import gzip
import json
from datetime import date

import pytest
from curate_command import curate
from evalplus_rows import humaneval_plus_hub_row, humaneval_plus_row, mbpp_plus_hub_row, mbpp_plus_row
from math_answers import needs_math_verify
from source_rows import DATA, humaneval_row, livecodebench_row, mbpp_row, words, write_jsonl

from curate.errors import CurateError
from curate.prompt import PromptFormat
from curate.reading.tables import locate
from sandbox import Program, Verdict
from train.evaluation.exercises import NAMES, choose_suite, parse_suite, read_exercises
from train.evaluation.statistics.outcomes import ProblemMetadata
from train.evaluation.suites.code import restore_types
from train.evaluation.suites.livecodebench import ERRATA

pytestmark = pytest.mark.usefixtures("own_cache")

EVALUATION = DATA / "evaluation"
real = pytest.mark.skipif(not EVALUATION.is_dir(), reason="the real data are not beside this checkout")
AIME = {"problem": "What is 16 + 17?", "answer": "033"}
MATH = {"problem": "What is half of 1?", "answer": r"\frac{1}{2}"}


@pytest.mark.parametrize(
    ("row", "choice"),
    [
        pytest.param(humaneval_plus_row(), r"humaneval or humaneval\+", id="EvalPlus's own HumanEval+"),
        pytest.param(AIME, "aime24 or aime25 or math500", id="mathematics without a year"),
    ],
)
def test_a_file_that_several_suites_could_read_is_refused_unless_one_is_named(tmp_path, row, choice):
    path = write_jsonl(tmp_path / "rows.jsonl", [row])
    with pytest.raises(CurateError, match=f"can be read as {choice}, whose verdicts differ. Choose one: --suite"):
        read_exercises(str(path))
    done = curate("evaluate", "--model", tmp_path, "--base-url", "http://x", "--data", path)
    assert done.exit_code == 1
    assert "Choose one: --suite" in done.output


@real
def test_evalplus_own_file_is_never_scored_by_its_base_tests_unnoticed():
    path = EVALUATION / "HumanEvalPlus.jsonl.gz"
    with pytest.raises(CurateError, match=r"--suite humaneval\+=.*HumanEvalPlus.jsonl.gz"):
        read_exercises(str(path))
    assert choose_suite(locate(str(path)), "humaneval").title == "HumanEval"
    assert {len(one.judge.parts) for one in read_exercises(str(path), suite="humaneval+")} == {2}


@pytest.mark.parametrize(
    ("row", "suite", "id"),
    [
        (humaneval_row(3), "humaneval", "HumanEval/3"),
        (humaneval_plus_hub_row(3), "humaneval+", "HumanEval/3"),
        (mbpp_row(11), "mbpp", "mbpp/11"),
        (mbpp_plus_row(2), "mbpp+", "Mbpp/2"),
        (mbpp_plus_hub_row(2), "mbpp+", "Mbpp/2"),
        (livecodebench_row("a", words("a")), "lcb", "livecodebench/a"),
        pytest.param(AIME | {"year": "2024"}, "aime24", "aime2024/0", marks=needs_math_verify),
        pytest.param(
            AIME | {"id": 60, "url": "https://example.org/2025_AIME_I"},
            "aime25",
            "aime2025/60",
            marks=needs_math_verify,
        ),
        pytest.param(MATH | {"unique_id": "test/a/1.json"}, "math500", "math500/test/a/1", marks=needs_math_verify),
    ],
)
def test_a_file_that_one_suite_can_read_needs_no_name(tmp_path, row, suite, id):
    path = write_jsonl(tmp_path / "rows.jsonl", [row])
    (found,) = read_exercises(str(path))
    assert found.id == id
    assert [one.fingerprint for one in read_exercises(str(path), suite=suite)] == [found.fingerprint]
    other = "lcb" if suite != "lcb" else "mbpp"
    with pytest.raises(CurateError, match=rf"are not those of .*It can be read as {suite.replace('+', '.')}"):
        read_exercises(str(path), suite=other)


def test_a_window_needs_dates(tmp_path):
    path = write_jsonl(tmp_path / "rows.jsonl", [mbpp_row(11)])
    with pytest.raises(CurateError, match="MBPP has no dates. Type --window '', or omit `window`"):
        read_exercises(str(path), "2024-08-01..2025-02-01")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("humaneval+=a/b.jsonl", ("humaneval+", "a/b.jsonl")),
        ("humaneval+=a.jsonl?imports=prompt", ("humaneval+", "a.jsonl?imports=prompt")),
        ("humaneval+", ("humaneval+", "evalplus/humanevalplus")),
        ("humaneval+?imports=prompt", ("humaneval+", "evalplus/humanevalplus?imports=prompt")),
        ("mbpp", ("mbpp", "google-research-datasets/mbpp?files=full/test-*")),
        ("lcb=data?release=v5", ("lcb", "data?release=v5")),
        ("dataset=data/six", ("dataset", "data/six")),
    ],
)
def test_a_suite_is_named_with_or_without_its_place(text, found):
    assert parse_suite(text) == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("humanevl", "no suite 'humanevl'; there are humaneval, .*Did you mean humaneval"),
        ("dataset", "--suite dataset needs a path: dataset=PATH"),
        ("lcb=", "--suite lcb needs a path: lcb=PATH"),
    ],
)
def test_a_name_that_is_no_suite_is_explained(text, said):
    with pytest.raises(CurateError, match=said):
        parse_suite(text)


def test_the_command_wants_either_a_suite_or_data(tmp_path):
    for words_ in (["--suite", "mbpp", "--data", "x"], []):
        done = curate("evaluate", "--model", "m", *words_)
        assert done.exit_code == 2
        assert "give either --data DATASET or --suite NAME[=PATH]" in done.output
    help = curate("evaluate", "--help").output
    assert all(name in help for name in NAMES)


def test_a_dataset_can_be_named_and_other_folders_are_no_datasets(tmp_path):
    with pytest.raises(CurateError, match="is not a dataset that curate built"):
        read_exercises(str(tmp_path), suite="dataset")


def test_facts_are_kept_beside_the_problems(tmp_path):
    row = livecodebench_row("a", words("a"), platform="atcoder", difficulty="hard", contest_date="2024-08-03T17:00:00")
    (found,) = read_exercises(str(write_jsonl(tmp_path / "rows.jsonl", [row])))
    assert found.metadata == ProblemMetadata("hard", "atcoder", date(2024, 8, 3))


def test_only_the_test_split_of_mbpp_is_evaluated(tmp_path, caplog):
    numbers = (10, 11, 510, 511)
    path = write_jsonl(tmp_path / "rows.jsonl", [mbpp_row(number) for number in numbers])
    assert [one.id for one in read_exercises(str(path))] == ["mbpp/11", "mbpp/510"]
    path = write_jsonl(tmp_path / "train.jsonl", [mbpp_row(700)])
    with pytest.raises(CurateError, match="no row is in the test split of MBPP"):
        read_exercises(str(path))


def test_mbpp_shows_its_tests_and_is_judged_by_them(tmp_path, box):
    (exercise,) = read_exercises(str(write_jsonl(tmp_path / "rows.jsonl", [mbpp_row(11)])))
    assert "assert add(1, 2) == 3" in exercise.prompt[0]["content"]
    assert "assert add(-1, 1) == 0" not in exercise.prompt[0]["content"]  # the challenge tests are not part of MBPP
    suite = exercise.judge.suite
    assert box.judge(Program("def add(x, y):\n    return x + y"), suite).verdict is Verdict.ACCEPTED
    assert box.judge(Program("def add(x, y):\n    return x - y"), suite).verdict is Verdict.WRONG_ANSWER


@pytest.mark.parametrize("row", [mbpp_plus_row(), mbpp_plus_hub_row()], ids=["EvalPlus's own", "the Hub's"])
def test_both_forms_of_mbpp_plus_give_the_arguments_their_types(tmp_path, box, row):
    (exercise,) = read_exercises(str(write_jsonl(tmp_path / "rows.jsonl", [row])))
    assert "similar_elements((1, 2),(2, 3))" in exercise.prompt[0]["content"]
    right = (
        "```python\ndef similar_elements(a, b):\n    assert type(a) is tuple\n    return sorted(set(a) & set(b))\n```"
    )
    assert exercise.judge.judge(right, box).verdict == "accepted"  # in any order, as its rule says
    assert exercise.judge.judge(right.replace("&", "|"), box).verdict == "wrong_answer"


@pytest.mark.parametrize("row", [humaneval_plus_row(), humaneval_plus_hub_row()], ids=["EvalPlus's own", "the Hub's"])
def test_both_forms_of_humaneval_plus_are_judged_alike(tmp_path, box, row):
    (exercise,) = read_exercises(str(write_jsonl(tmp_path / "rows.jsonl", [row])), suite="humaneval+")
    assert "Add one to each number." in exercise.prompt[0]["content"]
    assert (
        exercise.judge.judge("```python\ndef up(ns):\n    return [n + 1 for n in ns]\n```", box).verdict == "accepted"
    )
    assert (
        exercise.judge.judge("```python\ndef up(ns):\n    return [2 for n in ns]\n```", box).verdict == "wrong_answer"
    )


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (humaneval_plus_row(plus_input=3), r"HumanEval/0 cannot be read \(plus_input is not a list of lists"),
        (humaneval_plus_row(atol=None), r"HumanEval/0 cannot be read \(atol is not a number"),
        (mbpp_plus_row(3, base_input=[], plus_input={}), r"Mbpp/3 cannot be read \(the task has no inputs"),
        (mbpp_plus_row(2, base_input=[[1, 2]]), r"Mbpp/2 cannot be read \(base_input has malformed arguments"),
        (humaneval_plus_hub_row(test="def assertion(out, exp, atol): pass"), "the test program has no inputs"),
        (
            humaneval_plus_hub_row(test="def assertion(a, b, c): pass\ninputs = [f()]\nassertion(1, 2, 3)"),
            "the test program has an unsupported form",
        ),
        (mbpp_row(11, test_list=["assert 1 =="]), "mbpp/11 cannot be read"),
        pytest.param(AIME | {"year": 2024, "answer": "x"}, "'x' is not a whole number", marks=needs_math_verify),
    ],
)
def test_a_damaged_row_is_named(tmp_path, row, said):
    suite = "humaneval+" if "plus_input" in row and "HumanEval" in row["task_id"] else ""
    with pytest.raises(CurateError, match=said):
        read_exercises(str(write_jsonl(tmp_path / "rows.jsonl", [row])), suite=suite)


def test_unknown_options_of_a_suite_are_refused(tmp_path):
    path = write_jsonl(tmp_path / "rows.jsonl", [humaneval_plus_row()])
    with pytest.raises(CurateError, match="imports must be answer or prompt, not 'all'"):
        read_exercises(f"{path}?imports=all", suite="humaneval+")
    with pytest.raises(CurateError, match="unknown option imports"):
        read_exercises(f"{path}?imports=prompt", suite="humaneval")


def test_a_question_of_mathematics_asks_for_a_box_unless_the_user_has_a_template(tmp_path):
    pytest.importorskip("math_verify")
    path = str(write_jsonl(tmp_path / "rows.jsonl", [AIME]))
    (usual,) = read_exercises(path, suite="aime24", prompt=PromptFormat(system="Be brief."))
    assert [message["role"] for message in usual.prompt] == ["system", "user"]
    assert usual.prompt[1]["content"].startswith("What is 16 + 17? Let's think step by step")
    assert "within \\boxed{}." in usual.prompt[1]["content"]
    (own,) = read_exercises(path, suite="aime24", prompt=PromptFormat(template="Q: {{ statement }}"))
    assert own.prompt == [{"role": "user", "content": "Q: What is 16 + 17?"}]


@real
@needs_math_verify
@pytest.mark.parametrize(("file", "suite", "n"), [("aime24.json", "aime24", 30), ("math500.json", "math500", 500)])
def test_the_published_files_of_mathematics_are_recognised(file, suite, n):
    found = read_exercises(str(EVALUATION / file))
    assert len({one.id for one in found}) == n
    assert all(one.metadata.difficulty for one in found)
    assert [one.fingerprint for one in read_exercises(str(EVALUATION / file), suite=suite)] == [
        one.fingerprint for one in found
    ]


@real
@pytest.mark.thorough
def test_both_published_forms_of_mbpp_plus_have_the_same_inputs():
    """But for the sign of zeros in complex numbers, which Python's own literals lose."""
    files = ("MbppPlus.jsonl.gz", "MbppPlus-OriginFmt.jsonl.gz")
    own, hub = ({one.id: one.judge for one in read_exercises(str(EVALUATION / file))} for file in files)
    assert own.keys() == hub.keys()
    assert len(own) == 378

    def inputs(judge):
        return {text.replace("-0.0,", "0.0,") for _, reference in judge.parts for text in reference.inputs}

    def rule(judge):
        return judge.tolerance, judge.parts[0][1].entry_point

    assert [id for id in own if inputs(own[id]) != inputs(hub[id]) or rule(own[id]) != rule(hub[id])] == []


def test_arguments_get_their_types_back_by_the_numbers_of_the_tasks():
    assert restore_types(2, [[1], [2]]) == [(1,), (2,)]
    assert restore_types(63, [[[1, 2]]]) == [[(1, 2)]]
    assert restore_types(115, [[[], [1, 2]]]) == [[{}, {1, 2}]]
    assert restore_types(124, ["1", "2j"]) == [1.0, 2j]
    assert restore_types(278, [[1, [2]]]) == [(1, (2,))]
    assert restore_types(580, [[[1, [2]]]]) == [((1, (2,)),)]
    assert restore_types(722, [{"a": [1]}, 2]) == [{"a": (1,)}, 2]
    assert restore_types(3, [[1]]) == [[1]]


@real
@pytest.mark.thorough
def test_no_own_rule_of_mbpp_has_a_name_that_humaneval_uses():
    from train.evaluation.judges.call_judge import _OWN_RULES

    with gzip.open(EVALUATION / "HumanEvalPlus.jsonl.gz", "rt") as file:
        names = {json.loads(line)["entry_point"] for line in file}
    assert names & _OWN_RULES.keys() == {"find_zero"}


def test_problems_of_the_errata_of_livecodebench_can_be_left_out(tmp_path):
    rows = [
        livecodebench_row("abc343_a", words("a")),
        livecodebench_row("3190", words("b"), question_title="find-the-peaks"),
        livecodebench_row("abc343_b", words("c")),
    ]
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    assert len(read_exercises(str(path), suite="lcb")) == 3
    (left,) = read_exercises(f"{path}?errata=leave-out", suite="lcb")
    assert left.id == "livecodebench/abc343_b"
    with pytest.raises(CurateError, match="errata must be leave-out, not 'repair'"):
        read_exercises(f"{path}?errata=repair", suite="lcb")


@real
def test_the_errata_of_release_5_are_twelve_problems_of_atcoder_and_five_of_leetcode():
    with gzip.open(EVALUATION / "lcb_v5_o1.jsonl.gz", "rt") as lines:
        ids = {json.loads(line)["question_id"] for line in lines}
    assert len(ERRATA & ids) == 12
    assert len(ERRATA) == 17
