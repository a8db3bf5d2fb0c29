"""A dataset whose programs import packages says which, and is used with the same ones."""

import pytest
from installing import install
from source_rows import taco_row, words, write_parquet

from curate.dataset.needed_packages import add_build_packages
from curate.errors import CurateError
from curate.manifest import from_json, to_json
from curate.pipeline import BuildOptions, build
from sandbox import SandboxOptions

SOLUTION = "import answers\nprint(sum(map(int, input().split())) + answers.ZERO)"
CHEAP = BuildOptions(mutants=0, cross_checks=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    install(folder, "answers", {"answers.py": "ZERO = 0\n"})
    return folder


@pytest.fixture(scope="module")
def sandbox(folder):
    return SandboxOptions(workers=1, packages=("answers",), packages_from=str(folder))


@pytest.fixture(scope="module")
def built(sandbox, tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    raw = write_parquet(folder / "train.parquet", [taco_row(words(0), solutions=[SOLUTION])])
    source = [("taco", str(raw))]
    return source, folder / "out", build(source, folder / "out", CHEAP, sandbox=sandbox)


def test_references_that_import_a_package_are_verified_and_the_manifest_names_it(built, sandbox):
    _, _, manifest = built
    assert manifest.n_verified == 1
    [package] = manifest.build.packages
    assert (package.name, package.version, package.requested) == ("answers", "1.0", True)
    assert (package,) == sandbox.find_packages()
    assert from_json(to_json(manifest)) == manifest


def test_without_packages_it_is_another_plan(built, sandbox, tmp_path):
    source, out, manifest = built
    assert "packages" in manifest.plan.configuration
    assert build(source, out, CHEAP, sandbox=sandbox) == manifest
    with pytest.raises(CurateError, match="made from another plan"):
        build(source, out, CHEAP, sandbox=SandboxOptions(workers=1))
    plain = build(source, tmp_path / "plain", CHEAP, sandbox=SandboxOptions(workers=1))
    assert plain.n_verified == 0
    assert "packages" not in plain.plan.configuration
    assert "packages" not in to_json(plain)


def test_a_package_that_is_missing_prevents_a_build_before_it_begins(built, tmp_path):
    with pytest.raises(CurateError, match="the package nothing is not in this environment. Type: pip install nothing"):
        build(built[0], tmp_path / "out", CHEAP, sandbox=SandboxOptions(packages=("nothing",)))
    assert not (tmp_path / "out").exists()


def test_a_dataset_brings_its_packages_and_a_difference_is_said(built, sandbox, folder, tmp_path, caplog):
    _, out, _ = built
    install(tmp_path, "answers", {"answers.py": "ZERO = 1\n"}, version="2.0")
    install(tmp_path, "unneeded", {"unneeded.py": ""})
    here = SandboxOptions(packages=("answers",), packages_from=str(folder))
    assert add_build_packages(here, out) == here
    assert not caplog.records
    elsewhere = SandboxOptions(packages=("answers",), packages_from=str(tmp_path))
    assert add_build_packages(elsewhere, out) == elsewhere
    assert "was built with the package answers 1.0" in caplog.text
    assert "programs now get answers 2.0" in caplog.text
    assert add_build_packages(SandboxOptions(), tmp_path) == SandboxOptions()


def test_options_without_packages_get_those_of_the_dataset(built, folder, monkeypatch):
    monkeypatch.syspath_prepend(str(folder))  # as if it were installed in the environment
    assert add_build_packages(SandboxOptions(workers=3), built[1]) == SandboxOptions(workers=3, packages=("answers",))
