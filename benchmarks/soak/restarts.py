"""Kills of `curate judge` at random moments, and restarts until it is done.

It must write each verdict of an undisturbed run exactly once, and killed commands must leave no resources behind.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice, zip_longest
from pathlib import Path
from random import Random
from typing import Any

import psutil
from tqdm import tqdm

from benchmarks.record import ROOT
from benchmarks.soak.mixture import generate_mixture
from benchmarks.soak.process_family import ProcessFamily, wait_until
from sandbox.json_codec import encode
from sandbox.judge_record import Record
from sandbox.kernel import linux
from sandbox.kernel.stale_resources import PREFIX

_JUDGE = [sys.executable, "-c", "from cli import main; main()", "judge"]
_ALONE, _WITH_ALL = "the command alone", "with all of its processes"
_MAX_MISTAKES = 20  # in the result


def restart_command(records: int, kills: int, workers: int, seed: int) -> dict[str, Any]:
    """Kill and restart the command this many times, every third time with all of its processes."""
    linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)  # orphans become children of this process, which counts them
    try:
        with tempfile.TemporaryDirectory() as folder:
            return _restart(_Command(Path(folder), workers, records, seed), kills, Random(seed))
    finally:
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 0)


def _restart(command: "_Command", kills: int, random: Random) -> dict[str, Any]:
    started = time.monotonic()
    command.start("undisturbed").wait()
    usual_seconds = time.monotonic() - started
    kills_by_kind: Counter[str] = Counter()
    left: list[str] = []
    for turn in tqdm(range(kills), unit=" kills"):
        running = command.start("disturbed")
        time.sleep(random.uniform(0, 2 * usual_seconds / kills))
        if running.poll() is not None:
            break
        how = _WITH_ALL if turn % 3 == 2 else _ALONE
        kills_by_kind[how] += 1
        command.kill(running, whole_tree=how == _WITH_ALL)
        if not wait_until(lambda: not command.find_leftovers(includes_cgroups=how == _ALONE)):  # noqa: B023
            left += [f"after kill {turn}: {leftover}" for leftover in command.find_leftovers(includes_cgroups=True)]
    else:
        command.start("disturbed").wait()
    left += command.find_all_leftovers()
    mistakes = command.find_differences("undisturbed", "disturbed")
    return {
        "good": not mistakes and not left,
        "records": command.count,
        "kills": dict(kills_by_kind),
        "mistakes": mistakes[:_MAX_MISTAKES],
        "left": left,
    }


class _Command:
    """`curate judge` on records of the mixture, with its own folder and temporary directory."""

    def __init__(self, folder: Path, workers: int, count: int, seed: int) -> None:
        self.count = count
        self._temporary = folder / "tmp"
        self._temporary.mkdir()
        self._folder = folder
        self._workers = workers
        self._all = self._last = ProcessFamily(psutil.Process(), str(self._temporary))
        lines = (json.dumps(record) + "\n" for record in islice(_generate_records(seed), count))
        folder.joinpath("records").write_text("".join(lines))

    def start(self, out: str) -> subprocess.Popen[bytes]:
        folder = self._folder
        self._last = ProcessFamily(psutil.Process(), str(self._temporary))
        with folder.joinpath("stderr").open("w") as stderr:
            return subprocess.Popen(
                [*_JUDGE, str(folder / "records"), "--out", str(folder / out), "--workers", str(self._workers)],
                cwd=ROOT,
                env={**os.environ, "TMPDIR": str(self._temporary)},
                stdout=subprocess.DEVNULL,
                stderr=stderr,
            )

    def kill(self, running: subprocess.Popen[bytes], *, whole_tree: bool) -> None:
        members = self._list_members()
        for victim in members if whole_tree else []:
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.kill()
        running.kill()
        running.wait()

    def find_leftovers(self, *, includes_cgroups: bool) -> list[str]:
        """Return the leftover processes, and optionally cgroups, of the last command."""
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:  # reap exited orphans
                pass
        held = [f"process {process.pid}" for process in self._list_members()]
        return held + [str(path) for path in self._last.find_cgroups() if includes_cgroups]

    def find_all_leftovers(self) -> list[str]:
        """Return the leftovers of all commands: processes, cgroups and temporary directories."""
        paths = [*self._all.find_cgroups(), *self._temporary.glob(f"{PREFIX}*")]
        return self.find_leftovers(includes_cgroups=True) + [str(path) for path in paths]

    def _list_members(self) -> list[psutil.Process]:
        self._all.list_members()
        return self._last.list_members()

    def find_differences(self, one: str, other: str) -> list[str]:
        """Return wrong verdicts, and differences between two files of verdicts other than times and memory."""
        if not all(self._folder.joinpath(out).exists() for out in (one, other)):
            return [f"no verdicts: {self._folder.joinpath('stderr').read_text()[-1000:]}"]
        pairs = zip_longest(range(self.count), self._read_verdicts(one), self._read_verdicts(other))
        return [
            f"record {number}: {first} became {second}"
            for number, first, second in pairs
            if first is None or first != second or first[0] != number or first[1] is None
        ]

    def _read_verdicts(self, out: str) -> Iterator[tuple[Any, ...]]:
        for line in self._folder.joinpath(out).read_text().splitlines():
            row = json.loads(line)
            tests = [test["verdict"] for test in row.get("tests", ())]
            yield row["id"], row.get("verdict"), row.get("pass_rate"), tests, row.get("error")


def _generate_records(seed: int) -> Iterator[dict[str, Any]]:
    """Yield the submissions with a single right verdict that a record can express."""
    number = 0
    for submission in generate_mixture(seed):
        program, suite = submission.program, submission.suite
        record = Record.from_submission(number, program, suite)
        if record.to_suite() == suite and all(len(due) == 1 for due in submission.expected_verdicts):
            yield encode(record)
            number += 1
