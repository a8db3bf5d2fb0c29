"""The outcome for the real data beside the repository agrees with the labels, row by row."""

import ast
import json

import pytest
from source_rows import DATA, read_parquet, taco_row, write_parquet

from curate.pipeline import BuildOptions, build

SOURCES = ("taco", "synthetic1", "livecodebench")

# Rows whose outcome deliberately differs from the label: the label's reason, our reason, and why.
EXPLAINED = {
    "taco/164": (
        "wrong_language",
        "image",
        "Python 2 stands only in comments of a Python 3 program; the row has three pictures",
    ),
}


def only_too_slow(label):
    """Return whether the label is a timeout that a faster machine may avoid."""
    return label["reason"] == "reference_fails" and set(label["reference_verdicts"]) == {"time_limit"}


pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(not DATA.is_dir(), reason="the real data are not beside this checkout"),
]


@pytest.fixture(scope="module")
def labels():
    """Return the labels by our ids."""
    by_id = {}
    for source in SOURCES:
        for line in (DATA / "labels" / f"{source}.jsonl").read_text().splitlines():
            label = json.loads(line)
            label["key"] = f"{source}:{label['id']}"
            by_id[f"taco/{label['row']}" if source == "taco" else f"{source}/{label['id']}"] = label
    return by_id


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    out = tmp_path_factory.mktemp("real") / "out"
    # Without mutants and further solutions: no label concerns them, and they take longer than everything else.
    build([(source, str(DATA / source)) for source in SOURCES], out, BuildOptions(mutants=0, cross_checks=0))
    kept = {row["id"]: row for row in read_parquet(out / "data")}
    rejected = {row["id"]: row for row in read_parquet(out / "rejected")}
    return kept, rejected


def test_every_row_is_accounted_for_once(rows, labels):
    kept, rejected = rows
    assert kept.keys() | rejected.keys() == labels.keys()
    assert not kept.keys() & rejected.keys()


def test_the_reason_matches_the_label(rows, labels):
    kept, rejected = rows
    differing = {}
    for id, label in labels.items():
        reason = rejected[id]["reason"] if id in rejected else "ok"
        known = {label["reason"], "duplicate_exact", "duplicate_near"}
        if reason not in known | ({"ok", "flaky_reference"} if only_too_slow(label) else set()):
            differing[id] = (label["reason"], reason)
        if only_too_slow(label) and id in kept:  # so near the limit that the speed of the machine decides
            assert kept[id]["slowest_cpu_seconds"] > kept[id]["time_limit_seconds"] / 2, id
    assert differing == {id: (label, ours) for id, (label, ours, _) in EXPLAINED.items()}


def test_distinct_tests_are_counted_as_in_the_labels(rows, labels):
    kept, _ = rows
    for id, row in kept.items():
        assert row["n_tests"] == labels[id]["n_distinct_tests"], id


def test_exactly_one_of_the_rows_with_the_same_problem_survives(rows, labels):
    kept, rejected = rows
    ours = {label["key"]: id for id, label in labels.items()}
    for id, label in labels.items():
        others = [ours[key] for key in label["duplicate_of"]]
        twins = [other for other in others if labels[other]["expect"] == "keep" or only_too_slow(labels[other])]
        if id in kept:
            assert not [twin for twin in twins if twin in kept], id
        elif rejected[id]["reason"].startswith("duplicate"):
            assert label["expect"] == "keep" or only_too_slow(label), id
            assert twins, f"{id} was removed though no other row holds its problem"


def test_parts_of_a_series_are_all_kept(rows, labels):
    kept, _ = rows
    ours = {label["key"]: id for id, label in labels.items()}
    for id, label in labels.items():
        alike = {ours[other["id"]] for other in label["similar"]} - {ours[key] for key in label["duplicate_of"]}
        if label["expect"] == "keep" and not label["duplicate_of"] and alike:
            assert id in kept, id


def test_verified_rows_are_those_with_a_reference(rows):
    kept, _ = rows
    assert {row["source"] for row in kept.values() if row["verified"]} == {"taco", "synthetic1"}
    assert {row["source"] for row in kept.values() if not row["verified"]} == {"livecodebench"}


def test_the_reading_of_wrapped_values_was_decided_by_the_reference(rows, labels):
    kept, _ = rows
    removed = {id for id, row in kept.items() if row["wrapping"] == "removed"}
    assert removed == {id for id, label in labels.items() if label.get("wrapped_outputs") and id in kept}


def test_a_corrupt_file_whose_rows_all_share_one_test_yields_nothing(tmp_path):
    rows = []
    for row in json.loads((DATA / "golden" / "leetcodedataset_corrupt_20.json").read_text()):
        check = ast.parse(row["tests"]["functional"]).body[0]
        tests = []
        for assertion in check.body:
            call, expected = assertion.test.left, assertion.test.comparators[0]
            arguments = [ast.literal_eval(keyword.value) for keyword in call.keywords]
            tests.append((arguments, ast.literal_eval(expected)))
        entry_point = row["tests"]["functional"].rpartition("Solution().")[2].rstrip(") \n")
        rows.append(taco_row(row["problem"], tests, [row["completion"]], fn_name=entry_point))
    location = write_parquet(tmp_path / "train.parquet", rows)
    manifest = build([("taco", str(location))], tmp_path / "out", BuildOptions(min_tests=2))
    assert manifest.counts["taco"].n_kept == 0
    assert manifest.counts["taco"].rejected == {"verify": {"reference_fails": len(rows)}}
