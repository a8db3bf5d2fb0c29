import json
import os
import shutil
from functools import partial

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from curate_command import curate
from source_rows import livecodebench_row, read_parquet, taco_row, words, write_jsonl, write_parquet

from curate.dataset.dataset import Dataset
from curate.difficulty import table as solve_rates
from curate.pipeline import BuildOptions, build

decontaminate = partial(curate, "decontaminate")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """Return a build of eight rows, one of which repeats another."""
    folder = tmp_path_factory.mktemp("built")
    rows = [livecodebench_row(str(n), words(n), question_title=f"Title {n}") for n in range(7)]
    rows.append(livecodebench_row("8", words(0), question_title="Title 8", contest_date="2023-05-01"))
    raw = write_jsonl(folder / "raw" / "test.jsonl", rows)
    build([("livecodebench", str(raw))], folder / "out", BuildOptions())
    return folder / "out"


@pytest.fixture
def evaluation_set(tmp_path):
    items = [{"task_id": f"E/{n}", "prompt": words(n)} for n in (2, 5, "x")]
    return write_jsonl(tmp_path / "eval.jsonl", items)


def table(folder):
    return list(Dataset(folder.parent).iter_rows(folder.name))


def test_a_build_loses_its_contaminated_rows_and_keeps_its_layout(dataset, evaluation_set, tmp_path):
    out = tmp_path / "out"
    decontaminate(dataset, "--against", f"humaneval={evaluation_set}", "--out", out, check=True)
    assert {path.name for path in out.iterdir()} == {
        *("contamination", "data", "digests.parquet", "evidence", "rejected"),
        *("README.md", "manifest.json", "report.html", "report.json"),
    }
    gone = {"livecodebench/2", "livecodebench/5"}
    before = [row for row in table(dataset / "data") if row["id"] not in gone]
    assert table(out / "data") == before
    rejected = {row["id"]: (row["stage"], row["reason"]) for row in table(out / "rejected")}
    assert rejected == {
        "livecodebench/8": ("dedup", "duplicate_exact"),
        **dict.fromkeys(gone, ("decontaminate", "contaminated")),
    }
    assert [(hit["id"], hit["item"], hit["rule"], hit["score"]) for hit in table(out / "contamination")] == [
        ("livecodebench/2", "E/2", "same_text", 1.0),
        ("livecodebench/5", "E/5", "same_text", 1.0),
    ]


def test_counts_manifest_and_card_report_the_removal(dataset, evaluation_set, tmp_path):
    out = tmp_path / "out"
    result = decontaminate(dataset, "--against", f"humaneval={evaluation_set}", "--out", out)
    manifest, before = (json.loads((folder / "manifest.json").read_text()) for folder in (out, dataset))
    assert manifest["counts"]["livecodebench"] == {
        "read": 8,
        "rejected": {"dedup": {"duplicate_exact": 1}, "decontaminate": {"contaminated": 2}},
        "kept": 5,
        "verified": 0,
    }
    assert manifest["content_hash"] != before["content_hash"]
    assert manifest["plan"]["against"][0]["files"][0]["name"] == "eval.jsonl"
    count = manifest["decontamination"]["humaneval"]
    assert (count["items"], count["rows"], count["removed"]) == (3, 7, 2)
    card = (out / "README.md").read_text()
    assert "| humaneval | 3 | 7 | 2 | 28.57% | same_text 2 | 0 |" in card
    assert manifest["content_hash"] in card
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["against", "items", "rows", "removed", "rate", "review"]
    assert lines[1].split() == ["humaneval", "3", "7", "2", "28.57%", "0"]
    assert lines[-1] == f"content hash {manifest['content_hash']}"
    assert "Warning: humaneval: 28.6% of the rows are in this set" in result.stderr


def test_the_folder_opens_with_datasets(dataset, evaluation_set, tmp_path):
    decontaminate(dataset, "--against", f"humaneval={evaluation_set}", "--out", tmp_path / "out")
    for config, n_rows in (("default", 5), ("rejected", 3), ("contamination", 2)):
        read = datasets.load_dataset(str(tmp_path / "out"), config, split="train", cache_dir=str(tmp_path / "cache"))
        assert len(read) == n_rows


def test_a_window_of_dates_needs_no_evaluation_set(dataset, tmp_path):
    # All contests but one, which is a duplicate, were on the first of August 2024.
    result = decontaminate(dataset, "--against", "lcb:2024-08-01..2024-08-01", "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert table(tmp_path / "out" / "data") == []
    assert {hit["rule"] for hit in table(tmp_path / "out" / "contamination")} == {"in_window"}
    assert decontaminate(dataset, "--against", "lcb:2024-08-02..2024-08-03", "--out", tmp_path / "other").exit_code == 0


def test_two_sets_in_turn_give_the_same_result_as_both_at_once(dataset, evaluation_set, tmp_path):
    other = write_jsonl(tmp_path / "other.jsonl", [{"id": "o", "text": words(3)}])
    first, second = f"humaneval={evaluation_set}", f"other={other}"
    decontaminate(dataset, "--against", first, "--against", second, "--out", tmp_path / "both")
    decontaminate(dataset, "--against", first, "--out", tmp_path / "one")
    decontaminate(tmp_path / "one", "--against", second, "--out", tmp_path / "two")
    both, two = (json.loads((tmp_path / name / "manifest.json").read_text()) for name in ("both", "two"))
    assert two["content_hash"] == both["content_hash"]
    assert two["counts"] == both["counts"]
    assert two["decontamination"].keys() == both["decontamination"].keys()
    hits = [{(hit["id"], hit["set"]) for hit in table(tmp_path / name / "contamination")} for name in ("both", "two")]
    assert hits[0] == hits[1]


def test_the_same_command_again_changes_nothing(dataset, evaluation_set, tmp_path):
    arguments = (dataset, "--against", f"humaneval={evaluation_set}", "--out", tmp_path / "out")
    decontaminate(*arguments)
    (written,) = (tmp_path / "out" / "data").iterdir()
    before = written.stat().st_mtime_ns
    assert decontaminate(*arguments).exit_code == 0
    assert written.stat().st_mtime_ns == before


def test_foreign_parquet_files_are_copied_unchanged(evaluation_set, tmp_path):
    rows = [{"prompt": words(n), "score": n / 2, "nested": {"a": [n]}} for n in range(6)]
    rows[4]["prompt"] = None
    schema = pa.schema(pa.Table.from_pylist(rows).schema, metadata={"mine": "kept"})
    for name in ("a", "b"):
        (tmp_path / "raw" / name).mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), tmp_path / "raw" / name / "rows.parquet")
    out = tmp_path / "out"
    decontaminate(tmp_path / "raw", "--against", f"humaneval={evaluation_set}", "--out", out, check=True)
    for name in ("a", "b"):
        copied = pq.read_table(out / "data" / name / "rows.parquet")
        assert copied.to_pylist() == [rows[n] for n in (0, 1, 3, 4)]
        assert copied.schema.metadata[b"mine"] == b"kept"
    assert [row["id"] for row in table(out / "rejected")] == ["rows.parquet:2"] * 2 + ["rows.parquet:5"] * 2
    assert [hit["row"] for hit in table(out / "contamination")] == [2, 5, 8, 11]
    assert json.loads((out / "manifest.json").read_text())["counts"]["dataset"] == {
        "read": 12,
        "rejected": {"decontaminate": {"contaminated": 4}},
        "kept": 8,
    }
    read = datasets.load_dataset(str(out), split="train", cache_dir=str(tmp_path / "cache"))
    assert len(read) == 8


def test_lines_of_json_are_copied_byte_for_byte(evaluation_set, tmp_path):
    lines = [json.dumps({"problem": words(n), "id": n}, indent=None, separators=(" , ", ":")) for n in range(4)]
    raw = tmp_path / "rows.jsonl"
    raw.write_text("\n\n".join(lines))
    decontaminate(raw, "--against", f"humaneval={evaluation_set}", "--out", tmp_path / "out")
    assert (tmp_path / "out" / "data" / "rows.jsonl").read_text() == "".join(
        line + "\n" if n < 3 else line for n, line in enumerate(lines) if n != 2
    )


def assert_copied(folder, rows):
    lines = (folder / "out-rows.json" / "data" / "rows.jsonl").read_text().splitlines()
    assert list(map(json.loads, lines)) == rows
    assert read_parquet(folder / "out-rows.arrow" / "data" / "rows.parquet") == rows


def test_a_list_of_json_becomes_lines_and_an_arrow_file_parquet(evaluation_set, tmp_path):
    rows = [{"text": words(n)} for n in range(4)]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    with pa.ipc.new_stream(str(tmp_path / "rows.arrow"), pa.schema({"text": pa.string()})) as stream:
        stream.write_table(pa.Table.from_pylist(rows), max_chunksize=3)
    for name in ("rows.json", "rows.arrow"):
        result = decontaminate(tmp_path / name, "--against", f"a={evaluation_set}", "--out", tmp_path / f"out-{name}")
        assert result.exit_code == 0, result.output
    assert_copied(tmp_path, [rows[n] for n in (0, 1, 3)])


def test_a_copy_of_a_file_with_an_index_or_a_byte_order_mark_has_the_rows_that_stay(evaluation_set, tmp_path):
    rows = [{"text": words(n)} for n in range(4)]
    (tmp_path / "rows.json").write_text(json.dumps(rows), encoding="utf-8-sig")
    with pa.ipc.new_file(str(tmp_path / "rows.arrow"), pa.schema({"text": pa.string()})) as file:
        file.write_table(pa.Table.from_pylist(rows), max_chunksize=3)
    for name in ("rows.json", "rows.arrow"):
        result = decontaminate(tmp_path / name, "--against", f"a={evaluation_set}", "--out", tmp_path / f"out-{name}")
        assert result.exit_code == 0, result.output
    assert_copied(tmp_path, [rows[n] for n in (0, 1, 3)])
    result = decontaminate(
        f"{tmp_path / 'rows.json'}?encoding=utf-16", "--against", f"a={evaluation_set}", "--out", "out"
    )
    assert "Convert them to UTF-8, and remove the option encoding" in result.stderr


def _jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _json(path, rows):
    path.write_text(json.dumps(rows))


def _parquet(path, rows):
    pq.write_table(pa.Table.from_pylist(rows), path)


def _arrow(path, rows):
    datasets.Dataset.from_list(rows).save_to_disk(path.parent / "saved")
    shutil.copy(next((path.parent / "saved").glob("*.arrow")), path)


@pytest.mark.parametrize("write", [_jsonl, _json, _parquet, _arrow])
def test_datasets_opens_every_config_of_a_copy_whatever_the_format_of_its_rows(evaluation_set, tmp_path, write):
    rows = [{"prompt": [{"role": "user", "content": words(n)}], "n": n, "note": None} for n in range(6)]
    raw = tmp_path / f"train.{write.__name__[1:]}"
    write(raw, rows)
    other = write_jsonl(tmp_path / "other.jsonl", [{"text": words(0)}])
    decontaminate(raw, "--against", f"a={evaluation_set}", "--out", tmp_path / "one", check=True)
    decontaminate(tmp_path / "one", "--against", f"b={other}", "--out", tmp_path / "two", check=True)

    def opened(config):
        cache = str(tmp_path / "cache")
        return datasets.load_dataset(str(tmp_path / "two"), config, split="train", cache_dir=cache).to_list()

    assert [row["n"] for row in opened("default")] == [1, 3, 4]
    assert sorted(row["id"].rpartition(":")[2] for row in opened("rejected")) == ["0", "2", "5"]
    assert [(hit["set"], hit["row"], hit["score"]) for hit in opened("contamination")] == [
        ("a", 2, 1.0),
        ("a", 5, 1.0),
        ("b", 0, 1.0),
    ]
    report = json.loads((tmp_path / "two" / "report.json").read_text())
    assert [(entry["reason"], entry["n"]) for entry in report["rejections"]] == [("contaminated", 3)]
    statistics = curate("stats", tmp_path / "two")
    assert "3 of 6 problems were kept" in statistics.stdout


def test_values_that_parquet_cannot_have_are_an_error_that_says_what_to_do(evaluation_set, tmp_path):
    table = pa.table({"text": [words(1)], "nothing": pa.array([{}], pa.struct([]))})
    with pa.ipc.new_file(str(tmp_path / "rows.arrow"), table.schema) as file:
        file.write_table(table)
    result = decontaminate(tmp_path / "rows.arrow", "--against", f"a={evaluation_set}", "--out", tmp_path / "out")
    assert isinstance(result.exception, SystemExit)
    assert "rows.arrow: its rows cannot be written as Parquet" in result.stderr


def test_foreign_rows_are_recognised_by_their_address(tmp_path):
    item = {"problem": words("a"), "url": "https://codeforces.com/contest/2000/problem/A", "problem_id": "2000A"}
    evaluation_set = write_jsonl(tmp_path / "eval.jsonl", [item])
    rows = [taco_row(words(n), url=f"https://codeforces.com/problemset/problem/{n}/A") for n in (1999, 2000)]
    raw = write_parquet(tmp_path / "train.parquet", rows)
    decontaminate(raw, "--against", f"codeforces={evaluation_set}", "--out", tmp_path / "out")
    (hit,) = table(tmp_path / "out" / "contamination")
    assert (hit["row"], hit["rule"], hit["span"]) == (1, "same_key", "codeforces:2000/a")


def test_a_column_with_an_unusual_name_can_be_given(evaluation_set, tmp_path):
    raw = write_jsonl(tmp_path / "rows.jsonl", [{"aufgabe": words(n)} for n in range(4)])
    arguments = (raw, "--against", f"a={evaluation_set}", "--out", tmp_path / "out")
    refused = decontaminate(*arguments)
    assert refused.exit_code == 1
    assert "Pass the column of the problem: --text COLUMN" in refused.stderr
    assert decontaminate(*arguments, "--text", "aufgabe").exit_code == 0
    assert len((tmp_path / "out" / "data" / "rows.jsonl").read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--against", "humaneval"], "not an evaluation set", id="no location"),
        pytest.param([], "--against", id="no set"),
        pytest.param(["--against", "a=/nowhere/at/all"], "/nowhere/at/all: no such file", id="missing set"),
    ],
)
def test_mistakes_are_explained_without_a_traceback(dataset, tmp_path, arguments, message):
    result = decontaminate(dataset, *arguments, "--out", tmp_path / "out")
    assert isinstance(result.exception, SystemExit)
    assert result.exit_code != 0
    assert message in result.stderr


def test_the_dataset_itself_is_never_written_to(dataset, evaluation_set):
    for out in (dataset, dataset / "data" / "clean", dataset.parent):
        result = decontaminate(dataset, "--against", f"a={evaluation_set}", "--out", out, "--overwrite")
        assert result.exit_code == 1
        assert "Choose another --out" in result.stderr


def test_a_damaged_line_stops_the_comparison(evaluation_set, tmp_path):
    raw = tmp_path / "rows.jsonl"
    raw.write_text('{"text": "a"}\n{"text": \n')
    result = decontaminate(raw, "--against", f"a={evaluation_set}", "--out", tmp_path / "out")
    assert "rows.jsonl:2" in result.stderr
    assert "every row must be compared" in result.stderr
    assert not (tmp_path / "out" / "data").exists()


def test_a_later_set_of_the_same_name_is_kept_apart(dataset, evaluation_set, tmp_path):
    against = f"humaneval={evaluation_set}"
    decontaminate(dataset, "--against", against, "--out", tmp_path / "one")
    decontaminate(tmp_path / "one", "--against", against, "--out", tmp_path / "two")
    sets = json.loads((tmp_path / "two" / "manifest.json").read_text())["decontamination"]
    assert {name: count["removed"] for name, count in sets.items()} == {"humaneval": 2, "humaneval (2)": 0}


def test_rows_removed_from_a_foreign_dataset_stay_on_record(evaluation_set, tmp_path):
    raw = write_jsonl(tmp_path / "rows.jsonl", [{"text": words(n), "id": n} for n in range(6)])
    other = write_jsonl(tmp_path / "other.jsonl", [{"text": words(0)}])
    decontaminate(raw, "--against", f"a={evaluation_set}", "--out", tmp_path / "one")
    decontaminate(tmp_path / "one", "--against", f"b={other}", "--out", tmp_path / "two")
    assert [row["id"] for row in table(tmp_path / "two" / "rejected")] == ["0", "2", "5"]
    counts = json.loads((tmp_path / "two" / "manifest.json").read_text())["counts"]["dataset"]
    assert counts == {"read": 6, "rejected": {"decontaminate": {"contaminated": 3}}, "kept": 3}


def test_links_that_lead_to_themselves_are_explained(dataset, evaluation_set, tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    refused = decontaminate(dataset, "--against", f"a={evaluation_set}", "--out", loop / "out")
    assert isinstance(refused.exception, SystemExit)
    assert "cannot be written to" in refused.stderr
    missing = decontaminate(loop, "--against", f"a={evaluation_set}", "--out", tmp_path / "out")
    assert f"{loop}: no such file or folder" in missing.stderr


def test_rejected_rows_are_not_taken_for_kept_ones_if_the_manifest_is_lost(dataset, evaluation_set, tmp_path):
    copied = shutil.copytree(dataset, tmp_path / "copied")
    for text in ("{", "[]", '{"plan": 1, "counts": 2, "content_hash": 3}', None):
        (copied / "manifest.json").unlink()
        if text is not None:
            (copied / "manifest.json").write_text(text)
        result = decontaminate(copied, "--against", f"a={evaluation_set}", "--out", tmp_path / "out")
        assert isinstance(result.exception, SystemExit)
        assert f"or pass {copied / 'data'}" in result.stderr
    assert decontaminate(copied / "data", "--against", f"a={evaluation_set}", "--out", tmp_path / "out").exit_code == 0


@pytest.mark.parametrize("config", ["data", "rejected"])
def test_a_damaged_dataset_is_named(dataset, evaluation_set, tmp_path, config):
    copied = shutil.copytree(dataset, tmp_path / "copied")
    (file,) = (copied / config).iterdir()
    os.truncate(file, 1000)
    result = decontaminate(copied, "--against", f"a={evaluation_set}", "--out", tmp_path / "out")
    assert isinstance(result.exception, SystemExit)
    assert f"{file}: " in result.stderr


def test_text_that_no_file_can_hold_is_written_as_escapes(tmp_path):
    row = {"id": "half \ud800", "text": f"\ud801 {words(0)}"}
    raw = write_jsonl(tmp_path / os.fsdecode(b"rows-\xff.jsonl"), [row, {"id": "b", "text": words(1)}])
    evaluation_set = write_jsonl(tmp_path / "eval.jsonl", [row])
    decontaminate(raw, "--against", f"a={evaluation_set}", "--out", tmp_path / "out", check=True)
    (hit,) = table(tmp_path / "out" / "contamination")
    assert (hit["id"], hit["item"]) == ("half \\ud800", "half \\ud800")


def test_solve_rates_of_the_remaining_rows_are_kept(dataset, evaluation_set, tmp_path):
    copied = shutil.copytree(dataset, tmp_path / "copied")
    values = {
        name: {"string": "x", "int32": 1, "int32?": 1}.get(kind, 0.5) for name, (kind, _) in solve_rates.COLUMNS.items()
    }
    rows = [values | {"id": f"livecodebench/{n}", "model": model} for n in range(7) for model in "ab"]
    solve_rates.replace_table(copied, rows)
    decontaminate(copied, "--against", f"a={evaluation_set}", "--out", tmp_path / "out")
    assert solve_rates.read(tmp_path / "out") == [row for row in rows if row["id"][-1] not in "25"]
    assert "- config_name: difficulty" in (tmp_path / "out" / "README.md").read_text()
