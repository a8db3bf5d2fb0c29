"""A change of a dataset is noticed: by the dataset itself, or by the hashes that were published."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from curate_command import curate
from source_rows import read_parquet, write_jsonl

from curate.dataset import output_folder
from curate.dataset.dataset import Dataset
from curate.dataset.digests import RowHasher, write_digests
from curate.dataset.integrity import check_integrity
from curate.manifest import compute_hash, from_json, to_json
from curate.problem import COLUMNS, DEFAULT_VALUES, MEASURED_COLUMNS, REWARD_COLUMNS
from sandbox import Case, Suite
from train.rollouts.prompt_dataset import _COLUMNS

ROWS = "data/train-00000-of-00001.parquet"
REJECTED = "rejected/train-00000-of-00001.parquet"
EVIDENCE = "evidence/train-00000-of-00001.parquet"
TABLES = (ROWS, REJECTED, EVIDENCE, "digests.parquet")


@pytest.fixture
def dataset(showcase_build: Path, tmp_path: Path) -> Path:
    return shutil.copytree(showcase_build, tmp_path / "dataset")


def edit_table(path, change):
    table = pq.read_table(path)
    pq.write_table(change(table), path)


def edit_column(name):
    """Return a change of one value of a column to another one of its type."""

    def change(table):
        place, kind = table.schema.get_field_index(name), table.schema.field(name).type
        values = table.column(name).to_pylist()
        row = next((row for row, value in enumerate(values) if value), 0)
        others = {pa.string(): "other", pa.int32(): 77, pa.float64(): 77.5, pa.bool_(): not values[row]}
        if name == "tests":
            others[kind] = replace(Suite.from_json(values[row]), cases=(Case("1", "2"),)).to_json()
        values[row] = others.get(kind) if kind in others else [others[kind.value_type]]
        return table.set_column(place, table.schema.field(name), pa.array(values, kind))

    return change


def edit_json(path, *keys, value):
    content = json.loads(path.read_text())
    inner = content
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    path.write_text(json.dumps(content))


def forged(*keys, value):
    return lambda folder: edit_json(folder / "manifest.json", *keys, value=value)


def without(*names):
    def drop(folder):
        content = json.loads((folder / "manifest.json").read_text())
        (folder / "manifest.json").write_text(json.dumps({k: v for k, v in content.items() if k not in names}))

    return drop


def edited(name, change):
    return lambda folder: edit_table(folder / name, change)


def added(name, source=ROWS):
    def add(folder):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(folder / source, folder / name)

    return add


def card(old, new):
    def change(folder):
        text = (folder / "README.md").read_text()
        assert old in text
        (folder / "README.md").write_text(text.replace(old, new, 1))

    return change


def truncated(name):
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-60])


def in_other_order(table):
    return table.take(list(range(table.num_rows))[::-1])


def tamperings() -> Iterator[tuple[str, object]]:
    for name in (*TABLES, "README.md", "report.json", "report.html"):
        yield f"remove {name}", lambda folder, name=name: (folder / name).unlink()
    for name in TABLES:
        yield f"truncate {name}", truncated(name)
        yield f"reorder {name}", edited(name, in_other_order)
        yield f"remove a row of {name}", edited(name, lambda table: table.slice(1))
        yield f"rename {name}", lambda folder, name=name: (folder / name).rename(folder / f"{name[:-8]}-x.parquet")
    for name in ("data", "rejected", "evidence"):
        yield f"remove the folder {name}", lambda folder, name=name: shutil.rmtree(folder / name)
        yield f"add rows to {name}", added(f"{name}/train-00001-of-00002.parquet", f"{name}/{ROWS[5:]}")
        yield f"link from {name}", lambda folder, name=name: (folder / name / "x").symlink_to(folder / "evidence")
    yield "add lines", lambda folder: write_jsonl(folder / "data" / "train-extra.jsonl", [{"id": "x"}])
    yield "add contamination", added(f"contamination/{ROWS[5:]}", EVIDENCE)
    for name in (".huggingface.yaml", "dataset_infos.json"):
        yield f"add {name}", added(name, "report.json")
    for name in [
        name for name in COLUMNS if name not in DEFAULT_VALUES
    ]:  # without such a column, the rows are the same
        yield f"edit {name}", edited(ROWS, edit_column(name))
        yield f"drop {name}", edited(ROWS, lambda table, name=name: table.drop_columns([name]))
    for name in ("id", "source", "stage", "reason", "detail", "cause"):
        yield f"edit {name} of rejected", edited(REJECTED, edit_column(name))
    yield "edit outputs of evidence", edited(EVIDENCE, edit_column("outputs"))
    yield "edit a digest", edited("digests.parquet", edit_column("digest"))
    yield "forge the content hash", forged("content_hash", value="0" * 64)
    yield "forge the reward hash", forged("reward_hash", value="0" * 64)
    yield "forge the manifest hash", forged("manifest_hash", value="0" * 64)
    yield "forge a plan", forged("plan", "configuration", "min_tests", value=50)
    yield "forge an input", forged("plan", "inputs", "taco", value=[])
    yield "forge an evaluation set", forged("plan", "against", value=[{"name": "lcb", "window": None, "files": []}])
    yield "forge a count", forged("counts", "taco", "kept", value=9)
    yield "forge a reason", forged("counts", "taco", "rejected", value={})
    yield "forge verified", forged("counts", "livecodebench", "verified", value=1)
    yield "forge the recipe", forged("recipe", "build", "min_tests", value=50)
    yield "forge the strength", forged("strength", "killed", value=1)
    yield "forge the date", forged("date", value="2020-01-01")
    yield "forge the files", forged("files", value=[])
    for names in (("files",), ("reward_hash",), ("manifest_hash",), ("manifest_hash", "files"), ("versions",)):
        yield f"drop {', '.join(names)}", without(*names)
    yield "drop all hashes", without("reward_hash", "manifest_hash", "files")
    yield "hide rows in the card", card("data/train-*", "data/train-00000-of-00002*")
    yield "split rows in the card", card("  data_files: data/train-*.parquet\n", "  data_files: {train: rejected/*}\n")
    yield "hide a table in the card", card("- config_name: rejected\n  data_files: rejected/train-*.parquet\n", "")
    yield "add features to the card", card("configs:\n", "dataset_info: {features: []}\nconfigs:\n")
    yield "repeat configs in the card", card("\n---\n", "\nconfigs: []\n---\n")
    yield "damage the card", card("configs:", "configs: [")


TAMPERINGS = dict(tamperings())


@pytest.mark.parametrize("name", TAMPERINGS)
def test_a_dataset_that_was_tampered_with_does_not_pass(dataset, name):
    TAMPERINGS[name](dataset)
    result = curate("verify", dataset)
    assert result.exit_code == 1, result.output
    if (dataset / "data").is_dir():
        assert check_integrity(Dataset.open(dataset)).faults  # as commands check that read the files afterward


def sign(folder: Path) -> None:
    """Write everything again that is derived from the tables, as an attacker with this program can."""
    hasher, manifest = RowHasher(), from_json(json.loads((folder / "manifest.json").read_text()))
    for row in read_parquet(folder / ROWS):
        hasher.add(row, "data")
    for row in read_parquet(folder / REJECTED):
        hasher.add(row, "rejected")
    write_digests(hasher, folder)
    counts = dict(manifest.counts)
    for source, count in counts.items():
        rows = pq.read_table(folder / ROWS, filters=pc.field("source") == source)
        counts[source] = replace(count, n_verified=sum(rows.column("verified").to_pylist()))
    manifest = replace(
        manifest,
        content_hash=hasher.content_hash,
        reward_hash=hasher.reward_hash,
        counts=counts,
        files=output_folder.hash_immutable_files(folder),
    )
    content = to_json(manifest)
    (folder / "manifest.json").write_text(json.dumps(content | {"manifest_hash": compute_hash(content)}))


@pytest.mark.parametrize("column", COLUMNS)
def test_a_change_that_was_signed_again_has_other_hashes_than_the_published_ones(dataset, column):
    published = Dataset.open(dataset).manifest
    edit_table(dataset / ROWS, edit_column(column))
    sign(dataset)
    now = check_integrity(Dataset.open(dataset), read_rows=True)
    assert (now.content_hash != published.content_hash) == (column not in MEASURED_COLUMNS)
    assert (now.reward_hash != published.reward_hash) == (column in REWARD_COLUMNS)
    assert now.manifest_hash != published.manifest_hash


def test_the_reward_hash_covers_each_column_that_training_reads_besides_the_prompt():
    assert set(_COLUMNS) - {"source", "statement", "starter_code"} <= REWARD_COLUMNS


def test_published_hashes_are_compared_with_those_of_the_dataset(showcase_build, dataset):
    published = Dataset.open(dataset).manifest
    hashes = {f"--{name}-hash": getattr(published, f"{name}_hash") for name in ("content", "reward", "manifest")}
    assert curate("verify", dataset, *(word for pair in hashes.items() for word in pair)).exit_code == 0
    edit_table(dataset / ROWS, edit_column("strongest_tests"))
    sign(dataset)
    assert curate("verify", dataset, "--content-hash", hashes["--content-hash"].upper()).exit_code == 0
    refused = curate("verify", dataset, "--reward-hash", hashes["--reward-hash"])
    assert refused.exit_code == 1
    assert "is not the published dataset: its reward hash is " in refused.stderr
    assert curate("verify", dataset, "--manifest-hash", hashes["--manifest-hash"]).exit_code == 1
    assert "Rewards can differ, because measured columns changed" in curate("diff", showcase_build, dataset).stdout


@pytest.mark.parametrize("words", [["stats"], ["inspect"]], ids=" ".join)
def test_a_dataset_that_was_altered_is_shown_with_a_warning(dataset, words):
    assert curate(*words, dataset).stderr == ""
    edit_table(dataset / ROWS, edit_column("title"))
    shown = curate(*words, dataset, check=True)
    assert "the dataset differs from manifest.json: data: 1 row was changed" in shown.stderr


def test_a_manifest_that_claims_other_hashes_is_neither_exported_nor_copied_nor_published(dataset, tmp_path):
    content = json.loads((dataset / "manifest.json").read_text()) | {"content_hash": "0" * 64}
    (dataset / "manifest.json").write_text(json.dumps(content | {"manifest_hash": compute_hash(content)}))
    out = ("--out", tmp_path / "out")
    for words in (["export", dataset, "--to", "jsonl", *out], ["filter", dataset, "--where", "verified", *out]):
        assert "the content hash is " in curate(*words).stderr
    assert "the content hash is " in curate("push", dataset, "me/mine", "--dry-run").stderr
    assert not (tmp_path / "out").exists()


def test_datasets_made_from_others_have_hashes_of_their_own_and_pass(reported, tmp_path):
    def run(*words, out):
        assert curate(*words, "--out", tmp_path / out).exit_code == 0

    run("filter", reported, "--where", "n_tests > 5", "--where", "source == 'taco'", out="filtered")
    run("split", reported, "--validation", "3", out="parts")
    run("merge", tmp_path / "parts" / "train", tmp_path / "parts" / "validation", out="merged")
    run("difficulty", reported, "--solve-rate", "0.1:0.9", out="band")
    write_jsonl(tmp_path / "own.jsonl", [{"question": f"Count to {n}."} for n in range(3)])
    write_jsonl(tmp_path / "held.jsonl", [{"question": "Count to 1."}])
    run("decontaminate", tmp_path / "own.jsonl", "--against", f"held={tmp_path / 'held.jsonl'}", out="foreign")
    hashes = {}
    for name in (reported, "filtered", "parts/train", "parts/validation", "merged", "band", "foreign"):
        result = curate("verify", tmp_path / name)
        assert result.exit_code == 0, (name, result.output)
        assert "as in the manifest" in result.stdout.splitlines()[-1]
        hashes[name] = Dataset.open(tmp_path / name).manifest.reward_hash
    assert hashes.pop("foreign") == ""  # its rows are not problems
    assert hashes.pop("merged") == hashes[reported]  # the parts together have the same rows
    assert len(set(hashes.values())) == len(hashes)
