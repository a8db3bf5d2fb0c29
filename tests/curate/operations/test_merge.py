import shutil

import datasets
import pytest
from curate_command import curate
from showcase import near
from solve_rates import write_solve_rates
from source_rows import livecodebench_row, read_parquet, taco_row, words, write_jsonl, write_parquet

from curate.dataset.output_folder import read_manifest
from curate.decontamination.clean_copy import write_clean_copy
from curate.difficulty import table as solve_rates
from curate.errors import CurateError
from curate.manifest import from_json, to_json
from curate.operations.merging import merge
from curate.operations.row_filter import write_filtered
from curate.pipeline import BuildOptions, build

MORE = [(f"{n} {n}\n", f"{2 * n}\n") for n in range(9)]


def lcb(folder, problems):
    """Build a dataset of LiveCodeBench's rows, given as statements, or rows, by id."""
    rows = [
        given if isinstance(given, dict) else livecodebench_row(id, given, question_title=f"Title {words(given, 3)}")
        for id, given in problems.items()
    ]
    raw = write_jsonl(folder / "raw" / "test.jsonl", rows)
    build([("livecodebench", str(raw))], folder / "out", BuildOptions())
    return folder / "out"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return two datasets. Both have 1; b1 has the text of a2 and more tests, and b2 is nearly a3."""
    folder = tmp_path_factory.mktemp("built")
    first = {"1": words(1), "a2": words(2), "a3": words(3), "a4": words(4), "few": livecodebench_row("few", "x", [])}
    second = {"1": words(1), "b1": livecodebench_row("b1", words(2), MORE), "b2": near(3, 3), "b3": words(5)}
    return lcb(folder / "first", first), lcb(folder / "second", second)


@pytest.fixture
def pair(built, tmp_path):
    return tuple(shutil.copytree(folder, tmp_path / f"input {number}") for number, folder in enumerate(built))


def ids(folder):
    return [row["id"].partition("/")[2] for row in read_parquet(folder / "data")]


def test_of_several_copies_the_one_with_most_tests_and_then_the_first_stays(pair, tmp_path):
    out = tmp_path / "out"
    manifest = merge(pair, out)
    assert ids(out) == ["1", "a3", "a4", "b1", "b3"]
    before = {row["id"]: row for folder in reversed(pair) for row in read_parquet(folder / "data")}
    assert all(row == before[row["id"]] for row in read_parquet(out / "data"))
    assert {row["id"].partition("/")[2]: (row["reason"], row["detail"]) for row in read_parquet(out / "rejected")} == {
        "few": ("few_tests", next(row["detail"] for row in read_parquet(pair[0] / "rejected"))),
        "1": ("duplicate_exact", "cluster=livecodebench/1 kept=livecodebench/1 jaccard=1.000"),
        "a2": ("duplicate_exact", "cluster=livecodebench/b1 kept=livecodebench/b1 jaccard=1.000"),
        "b2": ("duplicate_near", "cluster=livecodebench/a3 kept=livecodebench/a3 jaccard=0.898"),
    }
    counts = manifest.counts["livecodebench"]
    assert (counts.n_read, counts.n_kept) == (9, 5)
    assert counts.rejected == {"filter": {"few_tests": 1}, "dedup": {"duplicate_exact": 2, "duplicate_near": 1}}
    assert manifest == read_manifest(out) == from_json(to_json(manifest))


def test_a_verified_copy_stays_although_it_has_fewer_tests(pair, tmp_path):
    raw = write_parquet(tmp_path / "taco" / "train.parquet", [taco_row(words(2)), taco_row(words(77))])
    build([("taco", str(raw))], tmp_path / "verified", BuildOptions(mutants=0, cross_checks=0))
    manifest = merge([*pair, tmp_path / "verified"], tmp_path / "out")
    assert ids(tmp_path / "out") == ["1", "a3", "a4", "b3", "0", "1"]
    assert manifest.n_verified == 2
    assert manifest.counts["taco"].n_kept == 2


def test_the_manifest_and_the_card_name_each_dataset(pair, tmp_path):
    out = tmp_path / "out"
    write_filtered(pair[0], ["n_tests < 99"], tmp_path / "filtered")
    manifest = merge([tmp_path / "filtered", pair[1]], out)
    before = [read_manifest(folder) for folder in (tmp_path / "filtered", pair[1])]
    assert [(d.content_hash, d.plan) for d in manifest.plan.datasets] == [(m.content_hash, m.plan) for m in before]
    assert [(d.location, d.rows, d.n_kept) for d in manifest.merged] == [
        (str(tmp_path / "filtered"), 4, 3),
        (str(pair[1]), 4, 2),
    ]
    card = (out / "README.md").read_text()
    assert f"| 1 | 4 | 3 | `{before[0].content_hash}` |" in card
    assert "- Filtered: only rows that fulfil all of these conditions: `n_tests < 99`." in card
    for config in ("default", "rejected"):
        assert datasets.load_dataset(str(out), config, split="train", cache_dir=str(tmp_path / "cache"))


def test_the_order_of_the_datasets_decides_between_equals_only(pair, tmp_path):
    merge(pair, tmp_path / "one")
    merge(pair[::-1], tmp_path / "two")
    assert ids(tmp_path / "two") == ["1", "a4", "b1", "b2", "b3"]
    assert read_manifest(tmp_path / "one").content_hash != read_manifest(tmp_path / "two").content_hash


def test_different_problems_under_one_id_are_refused(pair, tmp_path):
    third = lcb(tmp_path / "third", {"a4": words("quite different")})
    with pytest.raises(
        CurateError, match=r"input 0 and .*third/out have different problems under .*: livecodebench/a4\."
    ):
        merge([pair[0], third], tmp_path / "out")


def test_a_set_counts_only_if_all_datasets_were_compared_with_it(pair, tmp_path):
    def compared(folder, name, *against):
        write_clean_copy(str(folder), against, tmp_path / name)
        return tmp_path / name

    humaneval = write_jsonl(tmp_path / "he.jsonl", [{"task_id": f"E{n}", "prompt": words(n)} for n in (4, 5, 6)])
    other = write_jsonl(tmp_path / "other.jsonl", [{"text": words(9)}])
    first = compared(pair[0], "a", f"humaneval={humaneval}", f"other={other}")
    second = compared(pair[1], "b", f"humaneval={humaneval}")
    manifest = merge([first, second], tmp_path / "out")
    (counts,) = manifest.decontamination.values()
    assert (counts.name, counts.items, counts.items_found, counts.rows, counts.removed) == ("humaneval", 3, 2, 8, 2)
    assert [plan.name for plan in manifest.plan.evaluation_sets] == ["humaneval"]
    hits = read_parquet(tmp_path / "out" / "contamination")
    assert [(hit["id"], hit["row"]) for hit in hits] == [("livecodebench/a4", 3), ("livecodebench/b3", 7)]
    assert ids(tmp_path / "out") == ["1", "a3", "b1"]
    printed = curate("merge", first, second, "--out", tmp_path / "out")
    assert (
        f"Warning: the result does not count as compared with other: {second} may contain its items" in printed.stderr
    )
    none = merge([first, pair[1]], tmp_path / "none")
    assert none.decontamination == {}
    assert not (tmp_path / "none" / "contamination").exists()


def test_solve_rates_of_the_rows_that_stay_are_joined(pair, tmp_path):
    for dataset, model, right in ((pair[0], "m", 1), (pair[1], "m", 2), (pair[1], "n", 3)):
        write_solve_rates(dataset, model, {row["id"]: right for row in read_parquet(dataset / "data")})
    merge(pair, tmp_path / "out")
    rates = {
        (rate["id"].partition("/")[2], rate["model"]): rate["n_correct"] for rate in solve_rates.read(tmp_path / "out")
    }
    assert rates == {
        ("1", "m"): 1,  # of the first dataset, whose row stays
        ("1", "n"): 3,  # the same problem with the same tests, and only there was n sampled
        ("a3", "m"): 1,
        ("a4", "m"): 1,
        ("b1", "m"): 2,
        ("b1", "n"): 3,
        ("b3", "m"): 2,
        ("b3", "n"): 3,
    }
    assert "- config_name: difficulty" in (tmp_path / "out" / "README.md").read_text()


def test_the_same_merge_again_changes_nothing_and_another_one_is_refused(pair, tmp_path):
    out = tmp_path / "out"
    first = merge(pair, out)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    assert merge(pair, out) == first
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before
    with pytest.raises(CurateError, match=r"dedup was 0.7, now 0.95"):
        merge(pair, out, dedup=0.95)
    assert merge(pair, out, dedup=0.95, overwrite=True).n_kept == 6


def test_the_output_is_a_dataset_for_the_other_commands(pair, tmp_path):
    out = tmp_path / "out"
    done = curate("merge", *pair, "--out", out, check=True)
    assert f"3 of 4 problems kept from {pair[0]}" in done.stdout
    stats = curate("stats", out)
    assert "5 of 9 problems were kept" in stats.stdout
    assert "duplicate_near" in stats.stdout
    assert "livecodebench/b2  jaccard=0.898" in curate("inspect", out, "livecodebench/a3").stdout
    assert curate("diff", pair[0], out).exit_code == 1
    export = ["export", str(out), "--to", "jsonl", "--out", str(tmp_path / "x"), "--include", "unverified"]
    assert "5 of 5 problems" in curate(*export).output
    again, _ = write_filtered(out, ["n_tests == 9"], tmp_path / "again")
    assert again.n_kept == 1
    assert merge([out, tmp_path / "again"], tmp_path / "twice").n_kept == 5


def test_mistakes_are_explained(pair, tmp_path):
    def invoke(*arguments):
        return curate("merge", *arguments).stderr

    out = tmp_path / "out"
    assert "at least two datasets" in invoke(pair[0], "--out", out)
    assert "given twice" in invoke(pair[0], pair[0], "--out", out)
    assert "not a curate dataset" in invoke(pair[0], tmp_path, "--out", out)
    assert "Choose another --out" in invoke(*pair, "--out", pair[0] / "x")
    (tmp_path / "begun" / ".work").mkdir(parents=True)
    assert "is not finished" in invoke(pair[0], tmp_path / "begun", "--out", out)
    assert not out.exists()
