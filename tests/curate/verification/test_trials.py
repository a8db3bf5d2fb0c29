"""What a verified reference printed or said is kept, so that a referee which fails later can be tried on it."""

from dataclasses import replace

import pytest
from exported import problem

from curate.build_state import BuildState
from curate.dataset.digests import RowHasher
from curate.problem import encode_problem, from_row, to_row
from curate.progress import ignore_progress
from curate.reading.tables import TableFiles
from curate.shards import Shard, ShardPool
from curate.stage import BuildRow, find_first_pending
from curate.stages.rerun import RerunStage
from curate.stages.verify import VerificationStage
from curate.work import create_work_file
from sandbox import Case, Limits, Program, Referee, RefereeConvention, Sandbox, SandboxOptions, Suite, Verdict

# A divisor between 1 and the number, on a line behind the word; a number that has none never occurs.
DIVISOR = """
import sys
n, (word, d) = int(open(sys.argv[1]).read()), open(sys.argv[2]).read().split()
sys.exit(word != "divisor" or not 1 < int(d) < n or n % int(d))
"""
DIVIDE = "n = int(input())\nprint('divisor', next(d for d in range(2, n) if n % d == 0))"
GUESSING = """
import sys
secret = int(open(sys.argv[1]).read())
for turn in range(9):
    word, number = input().split()
    if word == "is": sys.exit(int(number) != secret)
    print(secret < int(number), flush=True)
sys.exit(1)
"""
HALVE = """
low, high = 0, 16
while high - low > 1:
    middle = (low + high) // 2
    print("below", middle, flush=True)
    low, high = (low, middle) if input() == "True" else (middle, high)
print("is", low)
"""
LIMITS = Limits(wall_seconds=2, memory_mb=128)
CHECKED = Suite([Case(f"{n}\n", "") for n in (9, 15)], None, "program", LIMITS, Referee(Program(DIVISOR)))
SPOKEN = Suite([Case("5\n", "")], None, "interactive", LIMITS, Referee(Program(GUESSING)))
# Accepts whatever is at least as good as the expected answer.
BETTER = "import sys\ni, a, o = (int(open(n).read()) for n in sys.argv[1:])\nprint(int(o >= a))"
JUDGE = Referee(Program(BETTER), RefereeConvention.PRINTED)
OPTIMUM = Suite([Case("1\n", "1\n"), Case("2\n", "1\n")], None, "program", LIMITS, JUDGE)
PROBLEMS = {
    "checked": (CHECKED, DIVIDE),
    "optimum": (OPTIMUM, "print(input())"),
    "plain": (Suite([Case("1\n", "1\n")], limits=LIMITS), "print(input())"),
    "spoken": (SPOKEN, HALVE),
}


def verified(folder, *, report=ignore_progress):
    """Return the problems by name after both runs of their references, as a build runs them in this work folder."""
    verify = VerificationStage(tries=1, languages=("python",), seed=0)
    stages = [verify, RerunStage(verify)]
    shard = Shard("taco", TableFiles("", ()), folder / "00000")
    if not shard.folder.exists():
        with create_work_file(shard.folder) as new:
            for name, (suite, source) in PROBLEMS.items():
                read = replace(problem(name, suite, None), solutions=(Program(source),))
                new.add(read, encode_problem(read), find_first_pending(BuildRow(read), stages))
    options = SandboxOptions(workers=2)
    with BuildState(
        folder, [shard], ["taco"], stages,
        open_sandbox=options.open, pool=ShardPool(options, 0), progress=report, resumed=True,
    ) as build:  # fmt: skip
        for stage in stages:
            stage.run(build)
        rows = [build.load(address).problem for address in build.iter_problems()]
        return {row.id.removeprefix("taco/"): row for row in rows}


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    return tmp_path_factory.mktemp("work") / "work"


@pytest.fixture(scope="module")
def settled(work):
    return verified(work)


def test_a_row_keeps_the_outputs_that_its_referee_has_accepted(settled):
    assert {name: row.tests.trials for name, row in settled.items()} == {
        "checked": ("divisor 3\n", "divisor 3\n"),
        "optimum": ("", "2\n"),  # the first output is as expected
        "plain": (),
        "spoken": ("below 8\nbelow 4\nbelow 6\nbelow 5\nis 5\n",),
    }


@pytest.mark.parametrize("name", ["checked", "spoken"])
def test_garbage_is_wrong_once_a_reference_was_verified(settled, name):
    with Sandbox(workers=1) as box:
        assert box.judge(Program("print('x')"), settled[name].tests).verdict is Verdict.WRONG_ANSWER


def test_a_row_holds_trials_in_a_column_of_the_reward_hash_alone(settled):
    for row in settled.values():
        without = replace(row, tests=row.tests.with_trials(()))
        written, written_without, hashed, hashed_without = to_row(row), to_row(without), RowHasher(), RowHasher()
        hashed.add(written, "data")
        hashed_without.add(written_without, "data")
        assert from_row(written) == row
        assert written["trial_outputs"] == list(row.tests.trials)
        assert written | {"trial_outputs": []} == written_without
        assert hashed.content_hash == hashed_without.content_hash
        assert (hashed.reward_hash == hashed_without.reward_hash) == (row == without)
        assert (list(hashed.digests) == list(hashed_without.digests)) == (row == without)


def test_trials_of_another_number_of_tests_are_refused(settled):
    with pytest.raises(ValueError, match="longer"):
        from_row(to_row(settled["checked"]) | {"trial_outputs": ["divisor 3\n"] * 3})


def test_a_build_that_goes_on_has_the_same_trials_and_executes_nothing_again(settled, work):
    executed = []
    again = verified(work, report=lambda stage, done, total: executed.append((stage, done)))
    assert again == settled
    assert ("verify", 0) not in executed
    assert ("run again", 0) not in executed
