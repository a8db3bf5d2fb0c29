"""Kept answers are judged again, with other tests or another extraction."""

import json
import shutil

import pytest
import tiny_world
from canned_results import bits, evaluated
from codeforces_rows import open_r1_row
from curate_command import curate
from source_rows import livecodebench_row, write_jsonl

from train.evaluation.results.result import read_result

SUM = "print(sum(map(int, input().split())))"
TWO_BLOCKS = f"First I try this:\n```python\nprint(0)\n```\nNo, rather this:\n```python\n{SUM}\n```\n"
OUTPUT_LAST = f"```python\n{SUM}\n```\nIt prints:\n```\n7\n```\n"  # LiveCodeBench's rule takes the last block


def rows(path, operation):
    tests = tiny_world.stdin_tests(operation)
    return write_jsonl(path, [livecodebench_row(name, f"Task {name}.", tests) for name in ("a", "b", "c")])


@pytest.fixture
def result(tmp_path, box):
    """Problem a has two right answers, b one of two, and c has one that shows its output."""
    answers = {"a": [TWO_BLOCKS] * 2, "b": [TWO_BLOCKS, "I do not know."], "c": [OUTPUT_LAST, "I do not know."]}
    location = rows(tmp_path / "lcb" / "test.jsonl", lambda a, b: a + b)
    out = tmp_path / "r.json"
    content = evaluated(out, box, "lcb", location, lambda id, n: answers[id[-1]][n], k=2)
    assert list(bits(content).values()) == ["11", "10", "10"]
    return out


def rescore(*words):
    return curate("rescore", *words, "--workers", "2")


def test_another_extraction_changes_the_verdicts_that_depend_on_it(result, tmp_path):
    before = result.read_bytes()
    done = rescore(result, "--extraction", "lcb")
    assert done.exit_code == 0, done.output
    assert "1 of 6 verdicts changed" in done.stdout
    assert [line.split() for line in done.stdout.splitlines()[-5:]] == [
        ["before", "now", "samples"],
        ["accepted", "wrong_answer", "1"],
        ["1", "problem", "changed:"],
        ["before", "now"],
        ["livecodebench/c", "1/2", "0/2"],
    ]
    assert result.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lcb", "r.json", "r.json.samples.jsonl"]


def test_other_tests_give_another_result_file(result, tmp_path):
    products = rows(tmp_path / "products.jsonl", lambda a, b: a * b)
    out = tmp_path / "products.json"
    done = rescore(result, "--suite", f"lcb={products}", "--out", out)
    assert done.exit_code == 0, done.output
    content, was = json.loads(out.read_text()), json.loads(result.read_text())
    assert list(bits(content).values()) == ["00", "00", "00"]
    assert content["numbers"]["verdicts"] == {"no_code": 2, "wrong_answer": 4}
    assert content["suite"]["location"] == str(products)
    assert content["suite"]["file_sha256"] != was["suite"]["file_sha256"]
    assert (content["model"], content["sampling"]) == (was["model"], was["sampling"])
    again = rescore(out, "--suite", f"lcb={tmp_path / 'lcb' / 'test.jsonl'}", "--out", out)  # and back
    assert again.exit_code == 0, again.output
    assert json.loads(out.read_text()) == was


def test_a_rescored_result_says_by_which_extraction(result, tmp_path):
    out = tmp_path / "lcb.json"
    assert rescore(result, "--extraction", "lcb", "--out", out).exit_code == 0
    assert json.loads(out.read_text())["protocol"]["overrides"] == {"extraction": "lcb"}
    done = rescore(out)
    assert "0 of 6 verdicts changed" in done.stdout
    compared = curate("compare", result, out)  # the tests are the same
    assert compared.exit_code == 0, compared.output
    assert len(read_result(out).outcomes) == 3


def test_problems_that_the_other_rows_lack_are_left_out_and_counted(result, tmp_path):
    some = write_jsonl(
        tmp_path / "some.jsonl", [livecodebench_row("b", "Task b.", tiny_world.stdin_tests(lambda a, b: a + b))]
    )
    done = rescore(result, "--suite", f"lcb={some}")
    assert done.exit_code == 0, done.output
    assert "does not have 2 of the problems" in done.stderr
    before = result.read_bytes()
    done = rescore(result, "--suite", f"lcb={some}", "--out", result)
    assert done.exit_code == 1
    assert "does not have livecodebench/a, livecodebench/c, which" in done.output
    shutil.copy(some, tmp_path / "lcb" / "test.jsonl")
    done = rescore(result)
    assert done.exit_code == 1
    assert "does not have livecodebench/a, livecodebench/c. Restore the rows that were evaluated." in done.output
    assert result.read_bytes() == before
    none = write_jsonl(tmp_path / "none.jsonl", [livecodebench_row("z", "Task z.")])
    done = rescore(result, "--suite", f"lcb={none}")
    assert done.exit_code == 1
    assert "has none of the problems" in done.output


def cut_off_the_last_answer(lines):
    return lines[:-1]


def damage_an_answer_in_the_middle(lines):
    return [*lines[:2], b"\0" * len(lines[2]) + b"\n", *lines[3:]]


def tear_the_last_answer(lines):
    return [*lines[:-1], lines[-1][:30]]


@pytest.mark.parametrize("onto_itself", [False, True], ids=["another file", "the same file"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (cut_off_the_last_answer, "lacks 1 of the 6 completions of"),
        (tear_the_last_answer, "lacks 1 of the 6 completions of"),
        (damage_an_answer_in_the_middle, "no record at line 3"),
    ],
)
def test_no_result_is_written_over_fewer_samples(result, tmp_path, change, words, onto_itself):
    answers = result.with_name("r.json.samples.jsonl")
    answers.write_bytes(b"".join(change(answers.read_bytes().splitlines(keepends=True))))
    before = result.read_bytes()
    out = result if onto_itself else tmp_path / "again.json"
    for chosen in ((), ("--out", out)):
        done = rescore(result, "--extraction", "lcb", *chosen)
        assert done.exit_code == 1
        assert words in done.output
    assert result.read_bytes() == before
    assert not (tmp_path / "again.json").exists()


def test_a_checker_that_fails_leaves_the_result_as_it_is(box, tmp_path):
    location = write_jsonl(tmp_path / "rows.jsonl", [open_r1_row("1971/A"), open_r1_row("1971/B")])
    out = tmp_path / "r.json"
    answer = f"```python\n{SUM}\n```\n"
    evaluated(out, box, "codeforces", location, lambda id, n: answer, k=1)
    before = out.read_bytes()
    write_jsonl(location, [open_r1_row("1971/A"), open_r1_row("1971/B", generated_checker="raise ValueError")])
    done = rescore(out, "--out", out)
    assert done.exit_code == 1
    assert "1 of 2 verdicts changed" in done.stdout
    assert "1 samples had a verdict and have none now, so no result is written" in done.stderr
    assert out.read_bytes() == before


def test_what_the_result_knows_of_problems_is_kept_where_the_other_rows_do_not_tell_it(result, tmp_path):
    tests = tiny_world.stdin_tests(lambda a, b: a + b)
    silent = [livecodebench_row(name, f"Task {name}.", tests, difficulty="") for name in ("a", "b")]
    told = livecodebench_row("c", "Task c.", tests, difficulty="hard")
    other = write_jsonl(tmp_path / "other.jsonl", [*silent, told])
    out = tmp_path / "out.json"
    assert rescore(result, "--suite", f"lcb={other}", "--out", out).exit_code == 0
    assert [problem.metadata.difficulty for problem in read_result(out).outcomes] == ["easy", "easy", "hard"]


def test_a_result_without_its_answers_says_what_to_do(result):
    result.with_name("r.json.samples.jsonl").unlink()
    done = rescore(result)
    assert done.exit_code == 1
    assert "has no stored completions" in done.output
    assert "Run the same `curate evaluate` again" in done.output
    content = json.loads(result.read_text())
    for owner, key in ((content["suite"], "given"), (content["problems"][0], "samples")):
        held = owner.pop(key)
        result.write_text(json.dumps(content))
        done = rescore(result)
        assert done.exit_code == 1
        assert "does not identify its completions" in done.output
        owner[key] = held


@pytest.fixture
def words(tmp_path):
    """Return the folder of a tokenizer whose tokens are words."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(tmp_path / "words")
    return tmp_path / "words"


def test_answers_are_judged_as_if_they_had_been_cut_off(result, words, tmp_path):
    before = result.read_bytes()
    out = tmp_path / "short.json"
    done = rescore(result, "--max-tokens", 7, "--tokenizer", words, "--out", out)
    assert done.exit_code == 0, done.output
    content = json.loads(out.read_text())
    assert list(bits(content).values()) == ["00", "00", "10"]  # the first block of two, and a whole one
    assert [problem["cut_off"] for problem in content["problems"]] == ["11", "10", "10"]
    assert content["problems"][1]["tokens"] == [7, 10]
    assert (content["sampling"]["max_tokens"], content["sampling"]["cut_by_tokenizer"]) == (7, str(words))
    shorter = rescore(out, "--max-tokens", 3, "--tokenizer", words, "--out", tmp_path / "shorter.json")
    assert shorter.exit_code == 0, shorter.output
    verdicts = json.loads((tmp_path / "shorter.json").read_text())["numbers"]["verdicts"]
    assert verdicts == {"truncated": 6}
    assert result.read_bytes() == before


def test_answers_are_not_cut_off_in_place_or_without_a_tokenizer(result, words, tmp_path):
    done = rescore(result, "--max-tokens", 7, "--tokenizer", words, "--out", result)
    assert "would lose the ends of its completions. Choose another --out" in " ".join(done.output.split())
    done = rescore(result, "--max-tokens", 7, "--tokenizer", tmp_path / "lcb")
    assert "--tokenizer NAME" in done.output
    done = rescore(result, "--tokenizer", words)
    assert done.exit_code == 2
