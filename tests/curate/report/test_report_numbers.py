import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from source_rows import FILES, read_parquet, words, write_jsonl

from curate.dataset.dataset import Dataset
from curate.decontamination.clean_copy import write_clean_copy
from curate.difficulty.band import SolveRateBand, filter_by_solve_rate
from curate.errors import CurateError
from curate.manifest import SourceCounts
from curate.report.histogram import COUNT_EDGES, SHARE_EDGES, compute_histograms, trim_empty_ends
from curate.report.report_files import load_duplicate_section, refresh_report
from curate.report.statistics import build_funnel_section, compute_report


@pytest.fixture(scope="module")
def report(reported):
    return json.loads((reported / "report.json").read_text())


def test_every_row_is_in_the_funnel_once(report, reported):
    kept, rejected = read_parquet(reported / "data"), read_parquet(reported / "rejected")
    for source, count in report["funnel"]["sources"].items():
        assert count["kept"] == count["after"][-1] == sum(row["source"] == source for row in kept)
        assert count["read"] - count["kept"] == sum(row["source"] == source for row in rejected)
    assert report["funnel"]["stages"] == ["filter", "verify", "dedup", "decontaminate"]


def test_rejections_are_counted_by_cause_and_source(report, reported):
    sources = {(e["stage"], e["reason"], e["cause"]): e["sources"] for e in report["rejections"]}
    assert sources["verify", "reference_fails", "wrong_answer"] == {"taco": 1}
    assert sources["filter", "image", ""] == {"taco": 1}
    assert sources["dedup", "duplicate_near", ""] == {"synthetic1": 13}
    assert sources["decontaminate", "contaminated", ""] == {"taco": 2}
    assert sum(entry["n"] for entry in report["rejections"]) == len(read_parquet(reported / "rejected"))


def test_histograms_count_what_the_columns_hold(report, reported):
    rows = read_parquet(reported / "data")
    assert report["tests"]["n"] == len(rows) == sum(report["tests"]["counts"])
    measured = [row["test_strength"] for row in rows if row["test_strength"] is not None]
    strength = report["test_strength"]
    assert (strength["n"], strength["unknown"]) == (len(measured), len(rows) - len(measured))
    assert strength["n_whole"] == measured.count(1.0)
    assert strength["median"] == pytest.approx(np.median(measured))
    timed = {row["id"]: row for row in rows if row["slowest_cpu_seconds"] is not None}
    assert report["reference_time"]["slowest"]["n"] == len(timed)
    first = report["reference_time"]["tightest"][0]
    shares = {id: row["slowest_cpu_seconds"] / row["time_limit_seconds"] for id, row in timed.items()}
    assert (first["id"], first["share"]) == min(shares.items(), key=lambda pair: (-pair[1], pair[0]))


def test_duplicates_are_counted_between_sources(report):
    duplicates = report["duplicates"]
    assert (duplicates["n_exact"], duplicates["n_near"]) == (2, 13)
    matrix = {
        (removed, kept): n
        for removed, row in zip(duplicates["sources"], duplicates["removed_by_kept"], strict=True)
        for kept, n in zip(duplicates["sources"], row, strict=True)
        if n
    }
    assert matrix == {("synthetic1", "taco"): 13, ("livecodebench", "taco"): 1, ("taco", "taco"): 1}
    assert sum(duplicates["similarity"]["counts"]) == 13
    assert duplicates["similarity"]["edges"][0] == duplicates["threshold"] == 0.7


def test_the_ten_least_similar_pairs_come_with_both_statements(report, reported):
    pairs = report["duplicates"]["least_similar"]
    assert len(pairs) == 10
    similarities = [pair["jaccard"] for pair in pairs]
    assert similarities == sorted(similarities)
    removed = [row["detail"] for row in read_parquet(reported / "rejected") if row["reason"] == "duplicate_near"]
    assert similarities == sorted(float(detail.rpartition("=")[2]) for detail in removed)[:10]
    assert pairs[0]["removed"]["id"] == "synthetic1/hostile"
    assert "other8" in pairs[0]["removed"]["statement"]
    assert "other8" not in pairs[0]["kept"]["statement"]


def test_solve_rates_are_counted_by_model_with_both_ends_of_the_band(report, reported):
    rows = read_parquet(reported / "difficulty")
    assert [rates["model"] for rates in report["solve_rates"]] == ["b", "someone/some-model-of-7B"]
    for rates in report["solve_rates"]:
        right = [row["n_correct"] for row in rows if row["model"] == rates["model"]]
        assert rates["counts"] == [right.count(n) for n in range(9)]
        assert (rates["never"], rates["always"]) == (right.count(0), right.count(8))
        assert rates["in_band"] == sum(1 <= n <= 4 for n in right)


def test_a_filter_by_solve_rate_is_a_stage_and_its_band_is_that_of_the_models_it_asked(reported, tmp_path):
    filter_by_solve_rate(reported, tmp_path / "out", SolveRateBand(0.5, 0.75), ["b"])
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert [rates["band"] for rates in report["solve_rates"]] == [[0.5, 0.75], None]
    kept = {row["id"] for row in read_parquet(tmp_path / "out" / "data")}
    rates = {row["id"]: row["n_correct"] for row in read_parquet(reported / "difficulty") if row["model"] == "b"}
    assert report["solve_rates"][0]["in_band"] == len(kept) == sum(4 <= right <= 6 for right in rates.values())
    assert report["funnel"]["stages"][-1] == "difficulty"
    assert len(report["duplicates"]["least_similar"]) == 10


def test_contamination_is_shown_with_the_hits_nearest_to_the_threshold(report):
    contamination = report["contamination"]["mine"]
    assert (contamination["items"], contamination["removed"], contamination["review"]) == (3, 2, 1)
    assert [hit["id"] for hit in contamination["removed_least"]] == ["taco/4"]
    assert [hit["id"] for hit in contamination["kept_most"]] == ["taco/5"]
    assert contamination["warning"]


def histogram(values, edges):
    return compute_histograms(pa.table({"x": pa.array(values, pa.float64())}).to_reader(), {"x": edges})["x"]


def test_a_share_of_one_is_in_the_last_bar_and_unknown_shares_in_none():
    bars = histogram([0.0, 0.95, 1.0, np.nan, None], SHARE_EDGES)
    assert (bars["counts"][0], bars["counts"][-1], sum(bars["counts"])) == (1, 2, 3)
    assert (bars["n"], bars["unknown"]) == (3, 2)


def test_numbers_beyond_the_last_edge_are_counted_too():
    (bars,) = trim_empty_ends(histogram([5.0, 1_000_000.0], COUNT_EDGES))
    assert sum(bars["counts"]) == 2
    assert bars["edges"][0] == 5
    assert bars["edges"][-1] is None


def test_an_empty_list_of_numbers_is_not_an_error():
    bars = histogram([], COUNT_EDGES)
    assert (sum(bars["counts"]), bars["n"], bars["median"]) == (0, 0, None)
    assert trim_empty_ends(bars) == [bars]


@given(st.lists(st.one_of(st.sampled_from(SHARE_EDGES), st.floats(0, 1))))
def test_every_value_is_counted_between_its_edges(values):
    bars = histogram(values, SHARE_EDGES)
    assert bars["counts"] == np.histogram(values, np.array(SHARE_EDGES))[0].tolist()
    assert bars["median"] == (pytest.approx(np.median(values)) if values else None)


def test_a_column_of_another_kind_is_unknown():
    rows = pa.table({"x": ["3", "many", None]}).to_reader()
    (bars,) = trim_empty_ends(compute_histograms(rows, {"x": COUNT_EDGES})["x"])
    assert (bars["n"], bars["unknown"], bars["counts"]) == (1, 2, [1])


def test_an_unknown_stage_is_shown_nevertheless():
    stages = build_funnel_section({"a": SourceCounts(5, {"parse": {"x": 1}, "new": {"y": 2}}, 2)})
    assert stages == {
        "stages": ["parse", "new"],
        "sources": {"a": {"read": 5, "after": [4, 2], "kept": 2, "verified": None}},
    }


def test_foreign_rows_have_a_report_without_the_missing_parts(tmp_path):
    raw = write_jsonl(tmp_path / "rows.jsonl", [{"text": words(n)} for n in range(4)])
    against = write_jsonl(tmp_path / "eval.jsonl", [{"prompt": words(1)}])
    write_clean_copy(str(raw), [f"mine={against}"], tmp_path / "out")
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["funnel"]["sources"]["dataset"] == {"read": 4, "after": [3], "kept": 3, "verified": None}
    assert report["tests"] is report["reference_time"] is report["test_strength"] is None
    assert report["solve_rates"] == []


def test_a_rewritten_report_keeps_its_pairs(showcase_build, tmp_path):
    copy = shutil.copytree(showcase_build, tmp_path / "copy")
    before = json.loads((copy / "report.json").read_text())
    refresh_report(copy)
    assert json.loads((copy / "report.json").read_text()) == before
    assert len(load_duplicate_section(copy).least_similar) == 10
    for damage in ("", "[]", '{"duplicates": {"least_similar": [{"jaccard": 1}]}}'):
        (copy / "report.json").write_text(damage)
        assert load_duplicate_section(copy) is None
        refresh_report(copy)


def test_reports_written_by_several_processes_at_once_are_complete(showcase_build, tmp_path):
    copy = shutil.copytree(showcase_build, tmp_path / "copy")
    before = (copy / "report.html").read_text()
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(refresh_report, [copy] * 8))
    assert (copy / "report.html").read_text() == before
    assert {path.name for path in copy.iterdir()} == FILES


def test_damaged_parquet_is_named(showcase_build, tmp_path):
    copy = shutil.copytree(showcase_build, tmp_path / "copy")
    (path,) = (copy / "rejected").glob("*.parquet")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CurateError, match=r"rejected/train-00000-of-00001.parquet: .*damaged"):
        compute_report(Dataset.open(copy), None)
