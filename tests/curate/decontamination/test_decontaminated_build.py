"""A build with evaluation sets leaves out rows that contain their items, as `curate decontaminate` would."""

import json

import pytest
from curate_command import curate
from source_rows import livecodebench_row, read_parquet, taco_row, words, write_jsonl, write_parquet

from curate.decontamination.clean_copy import write_clean_copy
from curate.errors import CurateError
from curate.pipeline import BuildOptions, build, dry_run

CHEAP = BuildOptions(cross_checks=0, mutants=0)


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Return TACO rows 0 to 3 and LiveCodeBench rows. Row `a` is the problem of TACO's row 0 with its date."""
    folder = tmp_path_factory.mktemp("raw")
    write_parquet(folder / "taco" / "train.parquet", [taco_row(words(n)) for n in range(4)])
    rows = [
        livecodebench_row("a", words(0) + " now", contest_date="2024-09-01T00:00:00"),
        livecodebench_row("b", words(10), contest_date="2024-09-01T00:00:00"),
        livecodebench_row("c", words(11), contest_date="2024-07-01T00:00:00"),
        livecodebench_row("d", words(12), contest_date="2024-07-01T00:00:00"),
    ]
    write_jsonl(folder / "livecodebench" / "test.jsonl", rows)
    return [(name, str(folder / name)) for name in ("taco", "livecodebench")]


@pytest.fixture(scope="module")
def evaluation_set(tmp_path_factory):
    """Return a set with all of TACO's row 2 and of LiveCodeBench's row c, and less than half of TACO's row 3."""
    texts = [words(2), words(11), " ".join([*words(3).split()[:26], *words("other").split()[:34]])]
    items = [{"task_id": f"E/{n}", "prompt": text} for n, text in enumerate(texts)]
    return write_jsonl(tmp_path_factory.mktemp("eval") / "eval.jsonl", items)


@pytest.fixture(scope="module")
def built(sources, evaluation_set, tmp_path_factory):
    out = tmp_path_factory.mktemp("built") / "out"
    return out, build(sources, out, CHEAP, against=[f"humaneval={evaluation_set}"])


def rejected(out):
    return {row["id"]: (row["stage"], row["reason"]) for row in read_parquet(out / "rejected")}


def test_rows_that_contain_an_item_are_rejected_and_every_hit_is_stored(built):
    out, manifest = built
    assert [row["id"] for row in read_parquet(out / "data")] == [
        "livecodebench/b",
        "livecodebench/d",
        "taco/0",
        "taco/1",
        "taco/3",
    ]
    assert rejected(out) == {
        "livecodebench/a": ("dedup", "duplicate_near"),
        "livecodebench/c": ("decontaminate", "contaminated"),
        "taco/2": ("decontaminate", "contaminated"),
    }
    hits = [(hit["id"], hit["item"], hit["rule"], hit["verdict"]) for hit in read_parquet(out / "contamination")]
    assert hits == [
        ("livecodebench/c", "E/1", "same_text", "removed"),
        ("taco/2", "E/0", "same_text", "removed"),
        ("taco/3", "E/2", "contained", "review"),
    ]
    assert manifest.counts["taco"].rejected == {"decontaminate": {"contaminated": 1}}
    count = manifest.decontamination["humaneval"]
    assert (count.items, count.rows, count.removed, count.n_to_review) == (3, 7, 2, 1)
    assert "| humaneval | 3 | 7 | 2 | 28.57% | same_text 2 | 1 |" in (out / "README.md").read_text()


def test_the_dataset_equals_a_plain_build_that_is_decontaminated_later(built, sources, evaluation_set, tmp_path):
    out, manifest = built
    build(sources, tmp_path / "all", CHEAP)
    later = write_clean_copy(str(tmp_path / "all"), [f"humaneval={evaluation_set}"], tmp_path / "clean")
    for name in ("plan", "content_hash", "counts", "decontamination"):
        assert getattr(later, name) == getattr(manifest, name)
    assert read_parquet(tmp_path / "clean" / "contamination") == read_parquet(out / "contamination")


def test_a_row_kept_in_place_of_one_from_the_window_is_removed_too(sources, tmp_path):
    manifest = build(sources, tmp_path / "out", CHEAP, against=["lcb:2024-08-01..2025-02-01"])
    hits = [(hit["id"], hit["rule"], hit["span"]) for hit in read_parquet(tmp_path / "out" / "contamination")]
    assert hits == [("livecodebench/b", "in_window", "2024-09-01"), ("taco/0", "in_window", "2024-09-01")]
    assert rejected(tmp_path / "out") == {
        "livecodebench/a": ("dedup", "duplicate_near"),
        "livecodebench/b": ("decontaminate", "contaminated"),
        "taco/0": ("decontaminate", "contaminated"),
    }
    assert manifest.decontamination["lcb"].removed == 2


def test_other_sets_make_another_plan_that_leaves_nothing_of_the_old_one(built, sources, evaluation_set, tmp_path):
    out = tmp_path / "out"
    first = build(sources, out, CHEAP, against=[f"humaneval={evaluation_set}"])
    assert build(sources, out, CHEAP, against=[f"humaneval={evaluation_set}"]) == first
    assert first.content_hash == built[1].content_hash
    with pytest.raises(CurateError, match="evaluation sets"):
        build(sources, out, CHEAP)
    build(sources, out, CHEAP, overwrite=True)
    assert not (out / "contamination").exists()


def test_the_command_shows_each_set_and_warns(sources, evaluation_set, tmp_path):
    arguments = [word for name, place in sources for word in ("--source", f"{name}={place}")]
    arguments += ["--out", str(tmp_path / "out"), "--mutants", "0", "--cross-checks", "0"]
    result = curate("build-dataset", *arguments, "--against", f"humaneval={evaluation_set}", check=True)
    assert ["humaneval", "3", "7", "2", "28.57%", "1"] in [line.split() for line in result.stdout.splitlines()]
    assert "Warning: humaneval: 28.6% of the rows are in this set" in result.stderr
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["plan"]["against"][0]["name"] == "humaneval"


def test_a_set_that_cannot_be_read_is_an_error_before_anything_is_executed(sources, tmp_path):
    (tmp_path / "eval.jsonl").write_bytes(b"\x89PNG\r\n")
    against = [f"humaneval={tmp_path / 'eval.jsonl'}"]
    with pytest.raises(CurateError, match="eval.jsonl: not UTF-8 .byte 0x89 at offset 0"):
        build(sources, tmp_path / "out", CHEAP, against=against)
    assert not (tmp_path / "out").exists()
    with pytest.raises(CurateError, match="eval.jsonl"):
        dry_run(sources, CHEAP, against=against, progress=lambda *progress: None)


def test_problems_of_another_dataset_can_be_left_out(sources, tmp_path):
    taco, livecodebench = sources
    build([taco], tmp_path / "old", CHEAP)
    build([livecodebench], tmp_path / "new", CHEAP, against=[f"old={tmp_path}/old/data?files=train*"])
    assert rejected(tmp_path / "new") == {"livecodebench/a": ("decontaminate", "contaminated")}
