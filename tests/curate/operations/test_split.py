import itertools
import json
import shutil

import datasets
import pytest
from curate_command import curate
from showcase import near
from solve_rates import write_solve_rates
from source_rows import livecodebench_row, read_parquet, words, write_jsonl

from curate.dataset.output_folder import lock_output, read_manifest
from curate.dedup.signatures import compute_jaccard, compute_shingles
from curate.difficulty import table as solve_rates
from curate.errors import CurateError
from curate.operations.splitting import split
from curate.pipeline import BuildOptions, build
from curate.recipe import SplitConfig

N = 24


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return a build of 24 pairs of problems that are similar, but not enough to be duplicates, and two of one name."""
    folder = tmp_path_factory.mktemp("built")
    rows = [livecodebench_row(f"a{n}", words(n), question_title=f"Alpha {words(n, 2)}") for n in range(N)]
    rows += [livecodebench_row(f"b{n}", near(n, 12), question_title=f"Beta {words(-n - 1, 2)}") for n in range(N)]
    for number, name in enumerate(("one", "other")):
        rows.append(livecodebench_row(name, words(f"z{number}"), question_title="Two Sum", platform="leetcode"))
    raw = write_jsonl(folder / "raw" / "test.jsonl", rows)
    build([("livecodebench", str(raw))], folder / "out", BuildOptions())
    return folder / "out"


def ids(folder):
    return [row["id"].partition("/")[2] for row in read_parquet(folder / "data")]


def test_two_commands_do_not_split_into_one_folder(built, tmp_path):
    out = tmp_path / "new" / "out"
    with (
        lock_output(out, out / ".lock", temporary=True),
        pytest.raises(CurateError, match="another command is writing to .*/out. Wait for it"),
    ):
        split(built, out, SplitConfig(validation=0.2))
    assert not list(out.iterdir())


def test_the_parts_have_all_rows_and_none_near_a_row_of_another(built, tmp_path):
    assert len(read_parquet(built / "data")) == 2 * N + 2
    manifests = split(built, tmp_path / "out", SplitConfig(validation=0.2, test=8))
    parts = {name: read_parquet(tmp_path / "out" / name / "data") for name in manifests}
    assert {name: len(part) for name, part in parts.items()} == {"train": 32, "validation": 10, "test": 8}
    assert sorted((row for part in parts.values() for row in part), key=lambda row: row["id"]) == read_parquet(
        built / "data"
    )
    texts = [(name, row["statement"], row["title"]) for name, part in parts.items() for row in part]
    sets = compute_shingles([text for _, text, _ in texts])
    n_similar = 0
    for first, second in itertools.combinations(range(len(texts)), 2):
        of = [sets.values[sets.offsets[row] : sets.offsets[row + 1]] for row in (first, second)]
        if compute_jaccard(*of) >= 0.5 or texts[first][2] == texts[second][2]:
            n_similar += 1
            assert texts[first][0] == texts[second][0]
    assert n_similar == N + 1  # the pairs, and the two of one name


def test_the_choice_depends_on_the_seed_and_the_similarity(built, tmp_path):
    def chosen(name, **options):
        split(built, tmp_path / name, SplitConfig(validation=9, **options))
        return ids(tmp_path / name / "validation")

    assert chosen("a") == chosen("b") != chosen("c", seed=1)
    assert len(chosen("a")) == 8  # clusters of two
    apart = chosen("d", similarity=0.95)
    assert len(apart) == 9
    assert any((f"b{id[1:]}" if id[0] == "a" else f"a{id[1:]}") not in apart for id in apart)


def test_each_part_is_a_dataset_that_says_where_its_other_rows_are(built, tmp_path):
    dataset = shutil.copytree(built, tmp_path / "dataset")
    write_solve_rates(dataset, "m", {row["id"]: 3 for row in read_parquet(dataset / "data")})
    manifests = split(dataset, tmp_path / "out", SplitConfig(validation=10))
    assert len({manifest.content_hash for manifest in manifests.values()}) == 2
    for name, other in (("train", "validation"), ("validation", "train")):
        part = tmp_path / "out" / name
        assert read_manifest(part) == manifests[name]
        (step,) = manifests[name].plan.steps
        assert step.options == {"part": name, "sizes": {"validation": 10}, "similarity": 0.5, "seed": 0}
        elsewhere = read_parquet(tmp_path / "out" / other / "data")
        assert [row["id"] for row in read_parquet(part / "rejected") if row["reason"] == other] == [
            r["id"] for r in elsewhere
        ]
        assert {row["stage"] for row in read_parquet(part / "rejected")} == {"split"}
        assert {rate["id"] for rate in solve_rates.read(part)} == {row["id"] for row in read_parquet(part / "data")}
        card = (part / "README.md").read_text()
        assert f"- Split: this is the part {name}. No row is the same problem as a row of" in card
        read = datasets.load_dataset(str(part), split="train", cache_dir=str(tmp_path / "cache"))
        assert len(read) == manifests[name].n_kept


def test_the_same_split_again_changes_nothing_and_another_one_is_refused(built, tmp_path):
    out, options = tmp_path / "out", SplitConfig(validation=4, test=4)
    split(built, out, options)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    split(built, out, options)
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before
    with pytest.raises(CurateError, match="made from another plan"):
        split(built, out, SplitConfig(validation=6, test=4))
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before
    split(built, out, SplitConfig(validation=6), overwrite=True)
    assert sorted(path.name for path in out.iterdir()) == ["train", "validation"]
    assert len(ids(out / "validation")) == 6


def test_a_part_that_is_missing_is_written_again(built, tmp_path):
    out, options = tmp_path / "out", SplitConfig(validation=4)
    first = split(built, out, options)
    shutil.rmtree(out / "validation")
    assert split(built, out, options)["validation"].content_hash == first["validation"].content_hash


def test_while_parts_are_replaced_none_of_the_old_ones_looks_finished(built, tmp_path, monkeypatch):
    out = tmp_path / "out"
    split(built, out, SplitConfig(validation=4))

    def killed(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("curate.operations.splitting.derive", killed)
    with pytest.raises(KeyboardInterrupt):
        split(built, out, SplitConfig(validation=6), overwrite=True)
    for part in ("train", "validation"):
        with pytest.raises(CurateError, match="is not finished"):
            read_manifest(out / part)
    monkeypatch.undo()
    split(built, out, SplitConfig(validation=6), overwrite=True)
    assert len(ids(out / "validation")) == 6


def test_the_command_splits_and_the_parts_are_datasets_for_the_other_commands(built, tmp_path):
    out = tmp_path / "out"
    done = curate("split", built, "--out", out, "--validation", "0.2", "--seed", "3", check=True)
    assert f"10 problems in {out / 'validation'} (livecodebench 10)" in done.stdout
    assert "split  validation" in curate("stats", out / "train").stdout
    assert curate("diff", out / "train", out / "validation").exit_code == 1
    to_jsonl = ["export", str(out / "train"), "--to", "jsonl", "--out", str(tmp_path / "x"), "--include", "unverified"]
    assert "40 of 40 problems" in curate(*to_jsonl).output


def test_mistakes_are_explained(built, tmp_path):
    def invoke(*arguments):
        return curate("split", *arguments)

    out = tmp_path / "out"
    assert "pass --validation, --test or both" in invoke(built, "--out", out).stderr
    assert "neither a share between 0 and 1" in invoke(built, "--out", out, "--validation", "1.5").stderr
    assert "nothing is left to train on" in invoke(built, "--out", out, "--validation", 50).stderr
    assert "Choose another --out" in invoke(built, "--out", built / "parts", "--validation", 5).stderr
    copied = shutil.copytree(built, tmp_path / "copied")
    assert "is a dataset itself" in invoke(built, "--out", copied, "--validation", 5).stderr
    assert not out.exists()
    manifest = json.loads((copied / "manifest.json").read_text())
    (copied / "manifest.json").unlink()
    assert "not a curate dataset" in invoke(copied, "--out", out, "--validation", 5).stderr
    assert manifest["plan"].keys() == {"curate", "inputs", "configuration", "against"}
