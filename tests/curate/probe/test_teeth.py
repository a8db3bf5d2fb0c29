"""Every probe has teeth: for each there is a small judge that falls for it."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from curate.probe.attempts import AttemptResult, Finding, plan_attempts
from curate.probe.prober import Prober, calibrate
from curate.probe.python_judge import PythonJudge, PythonTarget
from sandbox.probes import list_probe_classes
from sandbox.probes.host.machine import BAIT_SECRET
from sandbox.probes.probe import Convention
from sandbox.probes.problems import PROBLEMS

# The judges that fall for the probes of a class: no probe is without one.
TEETH = {
    "compare/hedges": "contains any_token first_token last_token last_line first_line member",
    "compare/numbers": "is_close as_floats as_integers within_a_tenth within_a_percent absolute not_greater relative "
    "startswith",
    "compare/order": "by_sorted by_set by_characters",
    "compare/parts": "startswith prefix endswith contains contained first_line last_line first_token last_token zipped "
    "share shape first_column",
    "compare/texts": "casefold no_blanks no_punctuation no_accents letters_only similar by_pattern by_own_pattern "
    "by_own_glob",
    "compare/values": "zipped by_truth by_text by_type by_length unwraps ignores_none first_item last_item subset "
    "superset by_keys inner_zip prefix contains contained",
    "dodge/errors": "ignores_errors",
    "dodge/exceptions": "drops_errors",
    "dodge/nothing": "nothing_to_test",
    "dodge/outputs": "fails_open",
    "dodge/retries": "tries_again tries_again_in_a_folder",
    "dodge/timeouts": "drops_timeouts",
    "extract/hedges": "any_block",
    "extract/thoughts": "first_block",
    "forge/builtins": "all_inside any_inside zip_inside len_inside str_inside repr_inside sorted_inside abs_inside "
    "float_inside set_inside sum_inside",
    "forge/descriptors": "reads_pipe",
    "forge/equality": "typed_inside equal_inside equal_twice near_inside",
    "forge/evaluation": "evaluates",
    "forge/exits": "exit_status",
    "forge/files": "result_file named_result_file",
    "forge/frames": "manager_list flags_inside tests_inside",
    "forge/frameworks": "by_unittest by_pytest by_pytest_twice",
    "forge/memory": "remembers_beginning remembers_end remembers_length",
    "forge/modules": "json_inside dumps_inside literals_inside close_inside decimal_inside operator_inside copy_inside "
    "imports_inside",
    "forge/pickles": "unpickles",
    "forge/poison": "rebound all_inside zip_inside str_inside json_inside named_by_exec shared_folder",
    "forge/reports": "last_words first_fraction fixed_marker",
    "forge/separators": "splits_lines",
    "forge/signals": "positive_status",
    "host/machine": "strict shared_folder",
    "host/memory": "leaks_in_global",
    "outage/backends": "zero_without_processes one_without_processes zero_when_away one_when_away",
    "read/descriptors": "leaks_in_open_file leaks_in_write_only_file leaks_in_pipe leaks_on_stdin",
    "read/environment": "leaks_in_variable leaks_in_removed_variable leaks_in_argument",
    "read/files": "leaks_in_working_folder leaks_beside_program leaks_in_folder_above leaks_in_own_source",
    "read/frames": "leaks_in_frames leaks_in_global",
    "read/memory": "leaks_in_global",
    "read/processes": "leaks_with_sibling leaks_with_sibling_variable leaks_with_parent_file",
    "special-case/some-tests": "first_test last_test any_test most_tests",
    "wrong/programs": "shape anything any_test last_test drops_errors nothing_to_test last_token last_line "
    "reads_stderr reads_a_file prints_count unwraps text_counts ignores_none",
    "honest/functions": "plainest_only",
    "honest/programs": "plainest_only",
    "extract/right-answers": "plainest_only",
}
FALLS = (Finding.REWARDED, Finding.REFUSED, Finding.OUTAGE)


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)


def probe(
    name: str, *only: str, conventions: Sequence[Convention] = (Convention.STDIN, Convention.CALL)
) -> list[AttemptResult]:
    """Return what a judge of weak_judges shows."""
    bait = BAIT_SECRET if "host" in only[0] else ""
    open_judge = partial(PythonJudge, PythonTarget(f"weak_judges:{name}", "plain", bait=bait), call_seconds=30)
    judge = open_judge()
    try:
        described = judge.open()
        calibration = calibrate(judge, described, PROBLEMS)
    finally:
        judge.close()
    attempts = plan_attempts(
        calibration.scales, accepts_text=True, include_outages=True, include_host=bool(bait), quick=False, only=only
    )
    return list(Prober(open_judge, calibration, jobs=1 if bait else 2).run(attempts))


def probes_of(class_id: str) -> set[str]:
    of_class = next(each for each in list_probe_classes() if each.id == class_id)
    return {f"{class_id}/{each.name}" for each in of_class.probes if not each.leniency}


def test_every_class_has_judges() -> None:
    assert set(TEETH) == {each.id for each in list_probe_classes()}


@pytest.mark.thorough
@pytest.mark.parametrize("class_id", TEETH)
def test_some_judge_falls_for_each_probe(class_id: str) -> None:
    standing = probes_of(class_id)
    for name in TEETH[class_id].split():
        if standing:
            results = probe(name, *sorted(standing))
            standing -= {result.probe_id for result in results if result.finding in FALLS}
    assert standing == set()
