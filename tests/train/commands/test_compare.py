"""`curate compare` shows paired differences and ends with the status that a pipeline asks for."""

from curate_command import curate
from lcb_facts import in_window, needs_facts
from made_outcomes import outcome
from made_results import of_bits, write


@needs_facts
def test_the_two_published_models_differ_as_published(tmp_path):
    preview = write(tmp_path / "o1-preview.json", in_window("o1_preview"))
    mini = write(tmp_path / "o1-mini.json", in_window("o1_mini"))
    done = curate("compare", preview, mini, "--changed", 2, check=True)
    assert [line.split() for line in done.stdout.splitlines()[2:4]] == [
        ["o1-preview", "279", "0.427", *"------"],
        ["o1-mini", "279", "0.520", "+0.093", "+0.042..+0.143", "0.0004", "0.071", "39", "13"],
    ]
    assert "52 problems changed, the 2 with the largest change:" in done.stdout
    assert curate("compare", preview, mini, "--fail-if-worse", "--fail-under", 0).exit_code == 0
    worse = curate("compare", mini, preview, "--fail-if-worse")
    assert (worse.exit_code, worse.stderr) == (3, "Failed: o1-preview is significantly worse than o1-mini\n")
    assert curate("compare", mini, preview, "--fail-under", "-0.05").exit_code == 3
    assert curate("compare", mini, preview, "--fail-under", "nan").exit_code == 2
    assert curate("compare", mini, preview, "--fail-under", "-0.10").exit_code == 0


def test_a_small_loss_is_not_significant(tmp_path):
    first, second = of_bits(tmp_path / "a.json", "11", "01", "11"), of_bits(tmp_path / "b.json", "11", "01", "10")
    assert curate("compare", first, second, "--fail-if-worse").exit_code == 0
    assert "1 problem changed:" in curate("compare", first, second).stdout


def test_three_models_are_compared_with_the_best_and_corrected(tmp_path):
    files = [
        of_bits(tmp_path / f"{name}.json", *[bits] * 8) for name, bits in zip("abc", ("01", "11", "00"), strict=True)
    ]
    done = curate("compare", *files, "--changed", 0)
    assert done.stdout.startswith("lcb: differences from b, the best\n")
    assert "p (all pairs)" in done.stdout
    assert [line.split()[0] for line in done.stdout.splitlines()[2:]] == ["b", "a", "c"]
    of_first = curate("compare", *files, "--reference", "first").stdout
    assert "from a, the first" in of_first
    assert "p (Holm)" in of_first


def test_settings_that_differ_are_said_before_the_numbers(tmp_path):
    first = of_bits(tmp_path / "a.json", "1", "1")
    second = of_bits(tmp_path / "b.json", "10", "11")
    lines = curate("compare", first, second).stdout.splitlines()
    assert lines[:2] == ["lcb: differences from a, the first", "Settings differ: k: 1 (a), 2 (b)."]
    assert "Settings" not in curate("compare", first, first).stdout


def test_different_problems_or_tests_are_refused(tmp_path):
    first = write(tmp_path / "a.json", [outcome("p0", "1", tests="x")])
    done = curate("compare", first, write(tmp_path / "b.json", [outcome("p0", "1", tests="y")]))
    assert done.exit_code == 1
    assert "different tests, such as p0" in done.output
    done = curate("compare", first, of_bits(tmp_path / "c.json", "1", "1"))
    assert done.exit_code == 1
    assert "different problems" in done.output
    assert curate("compare", first).exit_code == 2
