"""A stage from outside the package takes part in a build just as curate's own stages do."""

import json
import runpy
import sys
from pathlib import Path

import forked
import pytest
from source_rows import read_parquet, taco_row, words, write_parquet

from curate import BuildOptions, CurateError, build, default_stages

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "own_stage.py"
OPTIONS = BuildOptions(mutants=0, cross_checks=0)
ShortStatements = runpy.run_path(str(EXAMPLE))["ShortStatements"]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Write rows with statements of 60 words, and one of 120 words."""
    rows = [taco_row(words(n)) for n in range(3)]
    rows.append(taco_row(f"{words(3)} {words(4)}"))
    return [("taco", str(write_parquet(tmp_path_factory.mktemp("raw") / "train.parquet", rows)))]


def stages(most=100):
    return [*default_stages(OPTIONS), ShortStatements(max_words=most)]


@pytest.fixture(scope="module")
def built(source, tmp_path_factory):
    out = tmp_path_factory.mktemp("built") / "out"
    return out, build(source, out, OPTIONS, stages=stages())


def test_its_rejections_are_in_the_table_the_counts_the_report_and_the_card(built):
    out, manifest = built
    (rejected,) = read_parquet(out / "rejected")
    assert (rejected["id"], rejected["stage"], rejected["reason"]) == ("taco/3", "short statements", "long_statement")
    assert manifest.counts["taco"].rejected == {"short statements": {"long_statement": 1}}
    assert json.loads((out / "report.json").read_text())["funnel"]["stages"] == ["short statements"]
    card = (out / "README.md").read_text()
    assert "| taco | short statements | long_statement | 1 |" in card
    assert "short statements" in card.partition("## How it was made")[2]
    assert "short statements" in manifest.seconds


def test_its_options_are_part_of_the_plan(built, source):
    out, manifest = built
    assert manifest.plan.configuration["stages"][-1] == {"name": "short statements", "max_words": 100}
    assert build(source, out, OPTIONS, stages=stages()) == manifest
    with pytest.raises(CurateError, match="made from another plan"):
        build(source, out, OPTIONS, stages=stages(most=50))
    with pytest.raises(CurateError, match="made from another plan"):
        build(source, out, OPTIONS)


def test_the_default_stages_named_are_the_default_plan(source, tmp_path):
    manifest = build(source, tmp_path / "out", OPTIONS, stages=default_stages(OPTIONS))
    assert "stages" not in manifest.plan.configuration
    assert build(source, tmp_path / "out", OPTIONS) == manifest


def test_its_results_from_before_a_kill_are_not_computed_again(source, tmp_path, monkeypatch):
    asked = []
    examine = ShortStatements.examine

    def noted(self, row, sandbox):
        asked.append(row.problem.id)
        return examine(self, row, sandbox)

    monkeypatch.setattr(ShortStatements, "examine", noted)
    with monkeypatch.context() as dying:
        dying.setattr("curate.dataset.card.write", lambda manifest, folder: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            build(source, tmp_path / "out", OPTIONS, stages=stages())
    build(source, tmp_path / "out", OPTIONS, stages=stages())
    assert asked == ["taco/0", "taco/1", "taco/2", "taco/3"]


def test_a_build_of_only_own_stages_needs_no_sandbox(source, tmp_path):
    manifest = build(source, tmp_path / "out", OPTIONS, stages=[ShortStatements(max_words=100)])
    assert (manifest.n_kept, manifest.n_verified) == (3, 0)
    assert manifest.build.strength is None


def test_stages_that_cannot_be_combined_are_refused(source, tmp_path):
    with pytest.raises(ValueError, match="two steps of the build have the name 'short statements'"):
        build(source, tmp_path, OPTIONS, stages=[*stages(), ShortStatements(max_words=3)])
    with pytest.raises(ValueError, match="no effect on custom stages"):
        build(source, tmp_path, OPTIONS, stages=stages(), against=["lcb:2024-08-01..2024-08-02"])


def test_the_example_runs(tmp_path):
    command = [sys.executable, str(EXAMPLE), "--max-words", "60", "--out", str(tmp_path / "out")]
    done = forked.run(command, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "statements were too long" in done.stdout
