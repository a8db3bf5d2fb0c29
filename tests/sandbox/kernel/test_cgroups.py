"""A run begins when its cgroup's charge is only the zygotes' memory; otherwise it gets a new cgroup."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from sandbox import Limits, Outcome, Program, Sandbox
from sandbox.kernel import cgroups, delegation

MB = 1 << 20
ALLOCATE = "x = bytearray(b'x') * ({} << 20)"

pytestmark = pytest.mark.quiet  # cgroups of other tests would vanish during the search


@pytest.fixture
def cgroup() -> Iterator[cgroups.Cgroup]:
    try:
        cgroup = cgroups.create_cgroup(delegation.find_subtree(), "test")
    except OSError as error:
        pytest.skip(f"cannot create a cgroup: {error}")
    yield cgroup
    cgroup.remove()


class Holder:
    """A process in a cgroup that holds this many megabytes until `end`."""

    def __init__(self, cgroup: "cgroups.Cgroup | ExistingCgroup", megabytes: int) -> None:
        reader, self._gate = os.pipe()
        ready, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._gate)
            os.read(reader, 1)
            held = bytearray(b"x") * (megabytes * MB)
            os.write(writer, b"x" if held else b"")
            signal.pause()
        os.close(reader)
        os.close(writer)
        cgroup.add_process(self.pid)
        os.write(self._gate, b"x")
        os.read(ready, 1)
        os.close(ready)

    def end(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._gate)


def can_begin_run(cgroup: cgroups.Cgroup) -> bool:
    try:
        cgroup.begin_run(64, 10)
    except cgroups.CgroupUnusable:
        return False
    return True


def test_a_run_does_not_begin_while_memory_of_an_earlier_one_is_charged(cgroup: cgroups.Cgroup) -> None:
    zygote = Holder(cgroup, 20)
    cgroup.measure_baseline()
    assert can_begin_run(cgroup)
    left = Holder(cgroup, 40)
    started = time.monotonic()
    assert not can_begin_run(cgroup)
    assert time.monotonic() - started < 5
    left.end()
    assert can_begin_run(cgroup)
    zygote.end()


def test_page_cache_neither_prevents_a_run_nor_raises_its_limit(cgroup: cgroups.Cgroup, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(40 * MB))
    file = os.open(path, os.O_RDWR)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    cgroup.prepare_for_zygote()
    cgroup.measure_baseline()
    assert can_begin_run(cgroup)
    limits = set(Path("/sys/fs/cgroup").rglob("curate-sandbox-*-test/memory.limit_in_bytes"))
    limits |= set(Path("/sys/fs/cgroup").rglob("curate-sandbox-*-test/memory.max"))
    [limit] = [path for path in limits if f"-{os.getpid()}-" in str(path)]
    before = limit.read_text()
    pid = os.fork()
    if pid == 0:
        cgroup.add_process(os.getpid())
        os.pread(file, 40 * MB, 0)
        os._exit(0)
    os.waitpid(pid, 0)
    assert can_begin_run(cgroup)
    assert limit.read_text() == before
    os.close(file)


def find_cgroups(pid: int) -> set[Path]:
    """Return the memory cgroups of the first runner of a warden."""
    directories = {path.parent for path in Path("/sys/fs/cgroup").rglob(f"curate-sandbox-{pid}-*/memory.stat")}
    return {path for path in directories if path.name.rpartition("-")[2].startswith("1")}


def test_zygotes_move_to_a_new_cgroup_when_the_old_one_stays_charged() -> None:
    within, beyond = (Program(ALLOCATE.format(mb)) for mb in (56, 88))
    limits = Limits(memory_mb=64)
    others = {child.pid for child in psutil.Process().children()}
    with Sandbox(workers=1) as box:
        ours = {child.pid for child in psutil.Process().children()} - others
        [warden] = [pid for pid in ours if find_cgroups(pid)] or [0]
        if not warden:
            pytest.skip("the test is about cgroups, and this user may make none on this machine")
        assert box.run(within, limits=limits).outcome is Outcome.EXITED
        [first] = find_cgroups(warden)
        left = Holder(ExistingCgroup(first), 60)
        try:
            assert box.run(within, limits=limits).outcome is Outcome.EXITED
            assert find_cgroups(warden) - {first}
            assert box.run(beyond, limits=limits).outcome is Outcome.OUT_OF_MEMORY
            assert box.run(within, limits=limits).outcome is Outcome.EXITED
        finally:
            left.end()
            delegation.remove_cgroup(first)
    assert not find_cgroups(warden)


def test_a_removed_cgroup_is_replaced() -> None:
    prints = Program("print(7)")
    others = {child.pid for child in psutil.Process().children()}
    with Sandbox(workers=1) as box:
        assert box.run(prints).stdout == b"7\n"
        ours = {child.pid for child in psutil.Process().children()} - others
        [warden] = [pid for pid in ours if find_cgroups(pid)] or [0]
        if not warden:
            pytest.skip("the test is about cgroups, and this user may make none on this machine")
        for group in find_cgroups(warden):
            delegation.remove_cgroup(group)
        assert box.run(prints).stdout == b"7\n"
        assert find_cgroups(warden)


class ExistingCgroup:
    """An existing cgroup, for a Holder to join."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def add_process(self, pid: int) -> None:
        (self._directory / "cgroup.procs").write_text(str(pid))


def test_the_runs_of_a_worker_share_two_processors(cgroup: cgroups.Cgroup) -> None:
    if not cgroup.bounds_cpu:
        pytest.skip("the cgroups of this machine have no cpu controller")
    [quota] = [
        path
        for folder, _, names in os.walk("/sys/fs/cgroup")  # skips cgroups that vanish meanwhile
        if Path(folder).name.startswith(f"curate-sandbox-{os.getpid()}-")
        for path in (Path(folder, name) for name in names if name.startswith("cpu."))
        if path.name in ("cpu.cfs_quota_us", "cpu.max")
    ]
    assert quota.read_text().split()[0] == "200000"


def test_in_v2_all_controllers_are_in_one_directory(tmp_path: Path) -> None:
    subtree = delegation.CgroupSubtree(2, dict.fromkeys(("memory", "pids"), tmp_path))
    assert subtree.make("test") == {"memory": tmp_path / "test", "pids": tmp_path / "test"}
