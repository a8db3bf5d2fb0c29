import gzip
import json

import pytest
from source_rows import DATA, words, write_jsonl, write_parquet

from curate.decontamination.evaluation_set import derive_texts, list_evaluation_kinds, read_evaluation, read_evaluations
from curate.errors import CurateError

PROMPT = (
    "from typing import List\n\n\ndef helper(a):\n    '''Helps.'''\n    return a\n\n\n"
    f'def f(a: List[int]) -> int:\n    """ {words(0, 20)}\n    >>> f([1])\n    1\n    """\n'
)


def test_every_file_of_evaluations_is_a_kind():
    assert list_evaluation_kinds() == ["codeforces", "generic", "humaneval", "lcb"]


def test_a_humaneval_prompt_is_compared_whole_and_by_the_prose_of_its_last_docstring(tmp_path):
    path = tmp_path / "HumanEval.jsonl.gz"
    with gzip.open(path, "wt") as file:
        file.write(json.dumps({"task_id": "HumanEval/0", "prompt": PROMPT, "test": "assert True"}) + "\n")
    (item,) = read_evaluation(f"humaneval={path}").items
    assert item.id == "HumanEval/0"
    assert item.texts == (PROMPT.rstrip(), words(0, 20))


def test_livecodebench_as_published_has_ids_keys_and_dates(tmp_path):
    row = {
        "question_content": words(0),
        "question_id": "abc301_a",
        "question_title": "Overall Winner",
        "platform": "atcoder",
        "contest_date": "2024-08-03T00:00:00",
    }
    (item,) = read_evaluation(f"lcb={write_jsonl(tmp_path / 'test.jsonl', [row])}").items
    assert (item.id, item.keys, item.date) == ("abc301_a", {"atcoder:abc301_a"}, "2024-08-03")


def test_problems_without_an_id_are_named_after_their_place(tmp_path):
    path = tmp_path / "eval.json"
    path.write_text(json.dumps([{"problem": words(0), "tests": []}, {"problem": words(1), "tests": []}]))
    for name in ("lcb", "codeforces", "anything"):
        assert [item.id for item in read_evaluation(f"{name}={path}").items] == ["eval.json:0", "eval.json:1"]


def test_the_parts_of_a_codeelo_problem_are_joined_and_its_description_is_the_prose(tmp_path):
    row = {
        "problem_id": "2000A",
        "url": "https://codeforces.com/contest/2000/problem/A",
        "description": words(0, 30),
        "input": words(1, 10),
        "output": words(2, 10),
    }
    (item,) = read_evaluation(f"codeforces={write_parquet(tmp_path / 'test.parquet', [row])}").items
    assert item.texts == (f"{words(0, 30)}\n\n{words(1, 10)}\n\n{words(2, 10)}", words(0, 30))
    assert item.keys == {"codeforces:2000/a"}


def test_topics_and_limits_at_the_end_of_a_codeforces_problem_are_left_out(tmp_path):
    text = f"{words(0)}\n\nTags:\n['math']\n\nTime Limit: 1000 ms\nMemory Limit: 256 MB\n"
    (item,) = read_evaluation(f"codeforces={write_jsonl(tmp_path / 'a.jsonl', [{'problem': text}])}").items
    assert item.texts == (words(0),)


def test_any_other_set_is_read_from_the_usual_columns_or_a_given_one(tmp_path):
    row = {"task_id": 7, "text": words(0), "notes": words(1), "url": "https://leetcode.com/problems/two-sum/"}
    path = write_jsonl(tmp_path / "mbpp.jsonl", [row])
    (item,) = read_evaluation(f"mbpp={path}").items
    assert (item.id, item.texts, item.keys) == ("7", (words(0),), {"leetcode:two-sum"})
    assert read_evaluation(f"mbpp={path}?text=notes").items[0].texts == (words(1),)


def test_a_window_leaves_out_items_of_other_dates_and_keeps_those_without(tmp_path):
    dates = ["2024-07-31", "2024-08-01T00:00:00", "2025-02-01", "2025-02-02", ""]
    rows = [{"question_content": words(n), "question_id": n, "contest_date": date} for n, date in enumerate(dates)]
    found = read_evaluation(f"lcb:2024-08-01..2025-02-01={write_jsonl(tmp_path / 'test.jsonl', rows)}")
    assert [item.id for item in found.items] == ["1", "2", "4"]
    assert found.manifest_entry.window == "2024-08-01..2025-02-01"
    assert found.manifest_entry.files[0].name == "test.jsonl"


def test_a_window_alone_has_no_items():
    (found,) = read_evaluations(["lcb:2024-08-01..2025-02-01"])
    assert found.items == ()
    assert found.window is not None
    assert found.window.contains("2024-08-01T00:00:00")
    assert not found.window.contains("")


@pytest.mark.parametrize(
    ("text", "prose"),
    [
        pytest.param(f"{words(0)}\n\nInput\n\nOne line.", words(0), id="codeforces"),
        pytest.param(f"{words(0)}\n\n-----Input-----\nOne line.", words(0), id="apps"),
        pytest.param(f"{words(0)}\n \nExample 1:\n\nInput: n = 3\nOutput: 2", words(0), id="leetcode"),
        pytest.param(f"{words(0)}\n\nSample Input 1\n\n4", words(0), id="atcoder"),
        pytest.param(f"Input to this function is {words(0)}", None, id="a sentence that begins so"),
        pytest.param("Add.\n\nInput\n\nOne line.", None, id="prose too short to stand alone"),
        pytest.param(words(0), None, id="nothing but prose"),
    ],
)
def test_the_prose_ends_where_formats_and_examples_begin(text, prose):
    assert derive_texts(text) == ((text, prose) if prose else (text,))


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        pytest.param("humaneval", "not an evaluation set", id="no location"),
        pytest.param("=x", "not an evaluation set", id="no name"),
        pytest.param("lcb:2024-08-01", "is not FROM..TO", id="half a window"),
        pytest.param("lcb:2025-02-01..2024-08-01", "2025-02-01 is after 2024-08-01", id="window the wrong way round"),
        pytest.param("humaneval:2024-08-01..2025-02-01", "only these sets accept dates: lcb", id="no dates"),
        pytest.param("mbpp=/nowhere/at/all", "/nowhere/at/all: no such file", id="missing"),
    ],
)
def test_mistakes_are_explained(argument, message):
    with pytest.raises(CurateError, match=message):
        read_evaluation(argument)


def test_a_folder_that_is_not_an_evaluation_set_is_explained(tmp_path):
    empty = write_jsonl(tmp_path / "a" / "empty.jsonl", [])
    with pytest.raises(CurateError, match="no evaluation item"):
        read_evaluation(f"mbpp={empty}")
    with pytest.raises(CurateError, match="no text in b.jsonl:0. Columns that may hold it: prompt"):
        read_evaluation(f"humaneval={write_jsonl(tmp_path / 'b.jsonl', [{'task_id': 'x'}])}")
    (tmp_path / "c.jsonl.gz").write_bytes(b"\x1f\x8b and then nothing")
    with pytest.raises(CurateError, match="corrupt or truncated"):
        read_evaluation(f"humaneval={tmp_path / 'c.jsonl.gz'}")
    (tmp_path / "d.jsonl").write_text('{"prompt": "a"}\n{"prompt":\n')
    with pytest.raises(CurateError, match="line is not a JSON object"):
        read_evaluation(f"humaneval={tmp_path / 'd.jsonl'}")
    with pytest.raises(CurateError, match="two evaluation sets have the name lcb"):
        read_evaluations(["lcb:2024-08-01..2025-02-01"] * 2)


def test_the_training_half_of_a_folder_is_not_taken_for_an_evaluation_set(tmp_path):
    write_jsonl(tmp_path / "train.jsonl", [{"text": words(0)}])
    write_jsonl(tmp_path / "test.jsonl", [{"text": words(1)}])
    with pytest.raises(CurateError, match=r"\?files=test\*"):
        read_evaluation(f"mbpp={tmp_path}")
    assert read_evaluation(f"mbpp={tmp_path}?files=test*").items[0].texts == (words(1),)


@pytest.mark.skipif(not DATA.is_dir(), reason="the real data are not beside this checkout")
def test_the_published_sets_are_read_whole():
    counts = {
        "humaneval=HumanEval.jsonl.gz": 164,
        "lcb=livecodebench_v5_2024-08_2025-02.json": 279,
        "codeforces=codeelo.json": 408,
    }
    for argument, count in counts.items():
        name, _, file = argument.partition("=")
        assert len(read_evaluation(f"{name}={DATA / 'eval' / file}").items) == count
