import json
from pathlib import Path

import datasets
import pytest
import sample
from source_rows import FILES, SUM, SUM_TESTS, read_parquet, taco_row, words, write_jsonl, write_parquet

from curate.errors import CurateError
from curate.manifest import from_json
from curate.pipeline import BuildOptions, build, dry_run, source_names
from curate.problem import from_row
from sandbox import Program, Sandbox, SandboxOptions

TACO = Path(__file__).parents[2] / "examples" / "raw" / "taco"


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    return sample.write(tmp_path_factory.mktemp("raw"))


@pytest.fixture(scope="module")
def built(raw, tmp_path_factory):
    out = tmp_path_factory.mktemp("built") / "out"
    return out, build(raw, out, BuildOptions(), sandbox=SandboxOptions(workers=2))


def outcomes(out):
    rejected = {row["id"]: row["reason"] for row in read_parquet(out / "rejected")}
    return rejected | {row["id"]: "kept" for row in read_parquet(out / "data")}


def test_every_row_is_kept_or_rejected_with_its_reason(built):
    out, _ = built
    assert outcomes(out) == sample.OUTCOMES


def test_kept_rows_contain_what_was_verified(built):
    out, _ = built
    rows = {row["id"]: from_row(row) for row in read_parquet(out / "data")}
    assert list(rows) == sorted(rows)
    assert rows["taco/1"].verified
    assert rows["taco/1"].reference == Program(SUM + "\n")
    assert rows["taco/1"].n_tries == 2
    assert rows["taco/2"].tests.cases[1].expected == "2"
    assert rows["taco/2"].wrapping.value == "removed"
    assert not rows["livecodebench/1"].verified


def test_rejections_name_the_row_and_the_reason(built):
    out, _ = built
    rejected = {row["id"]: row for row in read_parquet(out / "rejected")}
    assert rejected["taco/6"]["stage"] == "filter"
    assert rejected["taco/6"]["detail"].startswith("3 distinct tests of 6")
    assert rejected["taco/10"]["stage"] == "verify"
    assert rejected["taco/10"]["detail"] == "runtime_error 1, wrong_answer 1; 2 of 2 solutions tried"
    assert rejected["synthetic1/a"]["detail"].startswith("cluster=taco/1 kept=taco/1 jaccard=0.9")


def test_failed_references_have_a_cause(built):
    out, _ = built
    rejected = {row["id"]: row for row in read_parquet(out / "rejected")}
    assert rejected["taco/10"]["cause"] in ("runtime_error", "wrong_answer")
    assert rejected["taco/6"]["cause"] == ""


def test_kept_rows_record_the_strength_of_their_tests_and_a_time_limit(built):
    out, manifest = built
    rows = {row["id"]: row for row in read_parquet(out / "data")}
    measured = rows["taco/1"]
    assert measured["n_mutants"] >= measured["n_mutants_killed"] + measured["n_mutants_equivalent"] > 0
    assert 0 < measured["test_strength"] <= 1
    assert set(measured["strongest_tests"]) <= set(range(measured["n_tests"]))
    assert measured["time_limit_seconds"] == 1.0
    assert 0 < measured["slowest_cpu_seconds"] <= measured["cpu_seconds"]
    assert (measured["n_references"], measured["multi_answer_suspect"]) == (1, False)
    unverified = rows["livecodebench/1"]
    assert (unverified["test_strength"], unverified["n_mutants"], unverified["n_references"]) == (None, 0, 0)
    assert manifest.build.strength.measured == sum(row["test_strength"] is not None for row in rows.values())


def test_rows_with_weak_tests_are_dropped_on_request(tmp_path):
    biggest = "n, *values = map(int, open(0).read().split())\nbest = 0\nfor value in values:\n"
    biggest += "    if value > best:\n        best = value\nprint(best)"
    ascending = [(f"3\n1 {n} {n + 1}\n", f"{n + 1}\n") for n in range(2, 8)]
    rows = [taco_row(words(0), ascending, [biggest]), taco_row(words(1))]
    location = [("taco", str(write_parquet(tmp_path / "train.parquet", rows)))]
    build(location, tmp_path / "out", BuildOptions(min_test_strength=0.95))
    assert outcomes(tmp_path / "out") == {"taco/0": "weak_tests", "taco/1": "kept"}
    (weak,) = read_parquet(tmp_path / "out" / "rejected")
    assert weak["stage"] == "strength"
    assert "wrong programs rejected; accepted:" in weak["detail"]
    build(location, tmp_path / "unmeasured", BuildOptions(mutants=0, cross_checks=0))
    assert set(outcomes(tmp_path / "unmeasured").values()) == {"kept"}
    with pytest.raises(ValueError, match="mutants"):
        BuildOptions(mutants=0, min_test_strength=0.5)


def test_problems_whose_solutions_disagree_are_marked(tmp_path):
    pairs = [(f"{total}\n", f"0 {total}\n") for total in range(8)]
    solutions = ["n = int(input())\nprint(0, n)", "n = int(input())\nprint(0, n) if n < 5 else print(1, n - 1)"]
    rows = [taco_row(words(0), pairs, solutions), taco_row(words(1), solutions=[SUM, SUM + "  # again"])]
    location = [("taco", str(write_parquet(tmp_path / "train.parquet", rows)))]
    build(location, tmp_path / "out", BuildOptions())
    stored = {row["id"]: row for row in read_parquet(tmp_path / "out" / "data")}
    assert [stored[f"taco/{n}"]["multi_answer_suspect"] for n in (0, 1)] == [True, False]
    assert [stored[f"taco/{n}"]["n_references"] for n in (0, 1)] == [1, 2]


def test_wrong_tests_are_distinguished_from_wrong_solutions(tmp_path):
    tests = [*SUM_TESTS[:-1], (SUM_TESTS[-1][0], "-1\n")]
    rows = [
        taco_row(words(0), tests, [SUM, SUM + "  # again"]),
        taco_row(words(1), solutions=["print(0)", "print(1)"]),
    ]
    location = [("taco", str(write_parquet(tmp_path / "train.parquet", rows)))]
    build(location, tmp_path / "out", BuildOptions())
    rejected = {row["id"]: row for row in read_parquet(tmp_path / "out" / "rejected")}
    assert [rejected[f"taco/{n}"]["reason"] for n in (0, 1)] == ["reference_fails"] * 2
    assert [rejected[f"taco/{n}"]["cause"] for n in (0, 1)] == ["wrong_tests", "wrong_answer"]
    assert "at 1 tests most of them agree" in rejected["taco/0"]["detail"]


def test_the_folder_opens_with_datasets(built, tmp_path):
    out, manifest = built
    kept = datasets.load_dataset(str(out), split="train", cache_dir=str(tmp_path))
    rejected = datasets.load_dataset(str(out), "rejected", split="train", cache_dir=str(tmp_path))
    assert len(kept) == manifest.n_kept
    assert len(kept) + len(rejected) == manifest.n_read


def test_a_folder_without_rejections_opens_too(tmp_path):
    location = write_parquet(tmp_path / "train.parquet", [taco_row(words(0))])
    build([("taco", str(location))], tmp_path / "out", BuildOptions(mutants=0))
    assert datasets.get_dataset_config_names(str(tmp_path / "out")) == ["default"]
    assert len(datasets.load_dataset(str(tmp_path / "out"), split="train", cache_dir=str(tmp_path / "cache"))) == 1


def test_references_in_cpp_are_verified_on_request(tmp_path):
    cpp = "#include <iostream>\nint main() { int a, b; std::cin >> a >> b; std::cout << a + b; }"
    location = write_parquet(tmp_path / "train.parquet", [taco_row(words(0), solutions=[cpp])])
    build([("taco", str(location))], tmp_path / "python", BuildOptions())
    assert outcomes(tmp_path / "python") == {"taco/0": "wrong_language"}
    build([("taco", str(location))], tmp_path / "both", BuildOptions(reference_languages=("python", "cpp")))
    (row,) = read_parquet(tmp_path / "both" / "data")
    assert (row["verified"], row["reference"], row["reference_language"]) == (True, cpp, "cpp")


def test_the_manifest_counts_by_source_stage_and_reason(built):
    out, manifest = built
    written = json.loads((out / "manifest.json").read_text())
    assert from_json(written) == manifest
    assert written["counts"]["synthetic1"] == {
        "read": 3,
        "rejected": {"parse": {"not_code": 1}, "dedup": {"duplicate_near": 1}},
        "kept": 1,
        "verified": 1,
    }
    (file,) = manifest.plan.inputs["taco"]
    assert len(file.sha256) == 64
    assert manifest.build.versions["datasketch"].startswith("2.")


def test_the_card_is_rendered_from_the_run(built):
    out, manifest = built
    card = (out / "README.md").read_text()
    assert manifest.content_hash in card
    assert "| synthetic1 | 3 | 2 | 1 | 1 |" in card
    assert "| taco | verify | reference_fails | 1 |" in card
    assert manifest.plan.inputs["taco"][0].sha256 in card


def test_nothing_is_left_beside_the_dataset(built):
    out, _ = built
    assert {path.name for path in out.iterdir()} == FILES


def test_the_same_inputs_and_seed_give_the_same_hash_whatever_the_workers_and_the_folder(built, raw, tmp_path):
    _, manifest = built
    moved = [(name, str(Path(location).rename(tmp_path / f"moved-{name}"))) for name, location in raw]
    try:
        again = build(moved, tmp_path / "out", BuildOptions(), sandbox=SandboxOptions(workers=1))
    finally:
        for (_, old), (_, new) in zip(raw, moved, strict=True):
            Path(new).rename(old)
    assert again.content_hash == manifest.content_hash


def test_a_finished_build_is_recognised_and_not_repeated(built, raw):
    out, manifest = built
    stages = []
    assert build(raw, out, BuildOptions(), progress=lambda stage, done, total: stages.append(stage)) == manifest
    assert stages == []


def test_other_options_do_not_silently_replace_a_dataset(built, raw, tmp_path):
    out, _ = built
    with pytest.raises(CurateError, match="--overwrite"):
        build(raw, out, BuildOptions(min_tests=6))


def test_overwriting_replaces_the_dataset(raw, tmp_path):
    build(raw[2:], tmp_path, BuildOptions())
    manifest = build(raw[2:], tmp_path, BuildOptions(no_reference="drop"), overwrite=True)
    assert outcomes(tmp_path)["livecodebench/1"] == "no_reference"
    assert manifest.counts["livecodebench"].n_kept == 0


def test_a_survey_counts_and_writes_nothing(raw, built):
    _, manifest = built
    counts, _ = dry_run(raw, BuildOptions(), progress=lambda stage, done, total: None)
    for name, count in counts.items():
        expected = manifest.counts[name].rejected
        assert count.rejected == {stage: expected[stage] for stage in ("parse", "filter") if stage in expected}


def test_a_limit_holds_for_each_source_separately(raw, tmp_path):
    counts, _ = dry_run(raw, BuildOptions(limit=2), progress=lambda stage, done, total: None)
    assert [count.n_read for count in counts.values()] == [2, 2, 2]


def test_the_order_of_the_sources_decides_between_equal_duplicates(raw, tmp_path):
    rows = [("synthetic1", dict(raw)["synthetic1"]), ("taco", dict(raw)["taco"])]
    build(rows, tmp_path, BuildOptions())
    assert outcomes(tmp_path)["synthetic1/a"] == "kept"
    assert outcomes(tmp_path)["taco/1"] == "duplicate_near"


def test_text_that_is_not_unicode_is_a_rejection(tmp_path):
    row = {"question": words(0) + " \ud800", "solutions": [SUM], "input_output": {"inputs": [], "outputs": []}}
    location = write_jsonl(tmp_path / "a.jsonl", [row])
    build([("taco", str(location))], tmp_path / "out", BuildOptions())
    assert outcomes(tmp_path / "out") == {"taco/0": "unparsable"}


def test_a_repeated_id_is_a_rejection(raw, tmp_path):
    lines = Path(dict(raw)["livecodebench"], "test.jsonl").read_text().splitlines()
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "test.jsonl").write_text(f"{lines[0]}\n{lines[0]}\n")
    manifest = build([("livecodebench", str(tmp_path / "raw"))], tmp_path / "out", BuildOptions())
    assert manifest.counts["livecodebench"].rejected == {"parse": {"repeated_id": 1}}
    assert manifest.counts["livecodebench"].n_kept == 1


@pytest.mark.parametrize(
    ("locations", "message"),
    [
        pytest.param([("tacos", ".")], "Choose one of acecode, apps, codecontests", id="unknown source"),
        pytest.param([("My data", "a.toml")], "'My data' cannot be the name of a source", id="no name"),
        pytest.param([("taco", "."), ("taco", ".")], "given twice", id="one source twice"),
        pytest.param([("taco", f"{TACO}?release=v5")], "unknown option release. Options are files", id="option"),
        pytest.param([("taco", "/nowhere/at/all")], "/nowhere/at/all: no such", id="missing path"),
    ],
)
def test_mistakes_are_explained(locations, message, tmp_path):
    with pytest.raises(CurateError, match=message):
        build(locations, tmp_path / "out", BuildOptions())


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("rows.jsonl", b"", id="an empty file"),
        pytest.param("rows.json", b"[]", id="an empty list"),
        pytest.param("rows.csv", b"question,solutions,input_output\n", id="a heading"),
        pytest.param("notes.txt", b"text", id="a folder without rows"),
    ],
)
def test_an_empty_input_is_an_error_and_leaves_no_folder_behind(raw, name, content, tmp_path):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / name).write_bytes(content)
    locations = [*raw, ("apps", str(tmp_path / "raw"))]
    for attempt in (build, lambda locations, out, options: dry_run(locations, options)):
        with pytest.raises(CurateError, match="contains no problems|no supported file inside"):
            attempt(locations, tmp_path / "out", BuildOptions())
        assert not (tmp_path / "out").exists()


def test_every_file_of_sources_is_a_source():
    text = "acecode apps codecontests deepcoder deepscaler generic humaneval kodcode leetcodedataset livecodebench mbpp"
    assert source_names() == [*text.split(), "numinamath", "synthetic1", "taco"]


def test_a_reference_that_passes_only_once_is_flaky(tmp_path):
    lucky = "import random; print(random.random())"
    with Sandbox(workers=1, seed=7) as box:
        tests = [(f"{n}", box.run(Program(lucky)).text) for n in range(5)]
    location = write_parquet(tmp_path / "train.parquet", [taco_row(words(0), tests, [lucky])])
    build([("taco", str(location))], tmp_path / "out", BuildOptions(seed=7), sandbox=SandboxOptions(workers=1))
    assert outcomes(tmp_path / "out") == {"taco/0": "flaky_reference"}
