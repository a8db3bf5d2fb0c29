import json

import pytest

from curate import manifest as manifests
from curate.json_records import to_json
from curate.manifest import BuildInfo, InputFile, Machine, Manifest, Plan, SelectedBand, SourceCounts

BUILT = Manifest(
    plan=Plan("1", {"taco": (InputFile("a.parquet", 7, "f00"),)}, {"sources": ["taco"], "min_tests": 5}),
    content_hash="c0ffee",
    counts={"taco": SourceCounts(5, {"filter": {"image": 2}}, 3, 2), "apps": SourceCounts(4, {}, 4, 1)},
    build=BuildInfo({"numpy": "2"}, machine=Machine("3.11", "Linux", 2)),
    seconds={"read": 1.5},
)
FOREIGN = Manifest(
    plan=Plan("1", {"dataset": (InputFile("rows.jsonl", sha256="f00"),)}, {"text": None}),
    content_hash="c0ffee",
    counts={"dataset": SourceCounts(5, {}, 5)},
)


@pytest.mark.parametrize("manifest", [BUILT, FOREIGN], ids=["built", "of another make"])
def test_a_manifest_is_read_as_it_was_written(manifest):
    assert manifests.from_json(json.loads(json.dumps(manifests.to_json(manifest)))) == manifest


def test_the_fields_of_the_build_stand_beside_the_others_in_the_file():
    foreign = {"plan", "content_hash", "counts", "decontamination", "seconds"}
    built = {"strength", "locations", "workers", "isolation", "levels", "backend", "versions", "machine"}
    assert manifests.to_json(FOREIGN).keys() == foreign
    assert manifests.to_json(BUILT).keys() == foreign | built | {"reference_cpu_seconds", "executed_cpu_seconds"}


def test_a_foreign_dataset_has_no_verified_rows_to_count():
    data = manifests.to_json(FOREIGN)
    assert data["counts"] == {"dataset": {"read": 5, "rejected": {}, "kept": 5}}
    assert data["plan"]["inputs"] == {"dataset": [{"name": "rows.jsonl", "sha256": "f00"}]}
    assert (FOREIGN.build, FOREIGN.n_verified) == (None, 0)


def test_a_manifest_counts_the_rows_of_all_sources():
    assert (BUILT.n_read, BUILT.n_kept, BUILT.n_rejected, BUILT.n_verified) == (9, 7, 2, 3)
    assert BUILT.counts["taco"].count_rejected("filter") == 2
    assert BUILT.counts["taco"].count_rejected("parse") == 0


def test_warnings_name_their_subject():
    chosen = SelectedBand("0:1", ("m",), "only 4 are left")
    assert manifests.from_json(manifests.to_json(BUILT) | {"solve_rate": to_json(chosen)}).warnings == [
        "solve rate: only 4 are left"
    ]


def test_fields_of_another_version_are_ignored_and_missing_ones_are_an_error():
    data = manifests.to_json(BUILT)
    assert manifests.from_json(data | {"of_a_later_version": 1}) == BUILT
    del data["counts"]
    with pytest.raises(ValueError, match="the field counts is missing"):
        manifests.from_json(data)
