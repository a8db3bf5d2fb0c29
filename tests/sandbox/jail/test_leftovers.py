"""The leftovers of dead processes are removed, and nothing else, whatever others have planted beside them."""

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sandbox.jail import cgroups, delegation, directories, stale_resources


@pytest.fixture
def dead() -> str:
    """Return the name of a leftover whose owner has ended."""
    print_name = "from sandbox.jail.stale_resources import make_owner_tag; print(make_owner_tag())"
    done = subprocess.run(
        [sys.executable, "-c", print_name], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3]
    )
    return done.stdout.strip()


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def filled(directory: Path) -> Path:
    directory.mkdir(parents=True)
    (directory / "folder").mkdir()
    (directory / "folder" / "file").write_text("x")
    return directory


def test_directories_of_dead_processes_are_removed_and_those_of_living_ones_stay(temporary: Path, dead: str) -> None:
    left, kept = filled(temporary / f"{dead}-a"), filled(temporary / f"{stale_resources.make_owner_tag()}-b")
    others = [filled(temporary / name) for name in ("other", "curate-sandbox-", "curate-sandbox-x-1-2", f"a{dead}")]
    stale_resources.sweep_directories()
    assert not left.exists()
    assert all((directory / "folder" / "file").exists() for directory in [kept, *others])


def test_no_link_is_followed(temporary: Path, dead: str) -> None:
    victim = filled(temporary / "victim")
    (temporary / f"{dead}-link").symlink_to(victim)
    left = filled(temporary / f"{dead}-a")
    (left / "link").symlink_to(victim)
    (left / "folder" / "link").symlink_to(victim)
    (left / "folder" / "file-link").symlink_to(victim / "folder" / "file")
    (temporary / f"{dead}-file").write_text("no directory")
    victim.chmod(0o751)
    stale_resources.sweep_directories()
    assert not left.exists()
    assert (victim / "folder" / "file").read_text() == "x"
    assert victim.stat().st_mode & 0o777 == 0o751


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_another_user_stays(temporary: Path, dead: str) -> None:
    planted = filled(temporary / f"{dead}-planted")
    os.chown(planted, 12345, 12345)
    stale_resources.sweep_directories()
    assert (planted / "folder" / "file").exists()


def test_sweeps_at_the_same_time_do_not_disturb_each_other(temporary: Path, dead: str) -> None:
    for turn in range(20):
        for number in range(10):
            filled(temporary / f"{dead}-{turn}-{number}")
        with ThreadPoolExecutor(4) as threads:
            for sweeping in [threads.submit(stale_resources.sweep_directories) for _ in range(4)]:
                sweeping.result()
        stale_resources.sweep_directories()
        assert list(temporary.iterdir()) == []


def test_a_missing_temporary_directory_is_no_reason_to_fail(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "missing"))
    stale_resources.sweep_directories()


def test_cgroups_of_dead_processes_are_removed_and_sweeping_never_fails(dead: str) -> None:
    try:
        ours = cgroups.create(delegation.find_subtree(), "test")
    except OSError as error:
        pytest.skip(f"the test is about a cgroup, and none can be made: {error}")
    try:
        directories = [path for path in Path("/sys/fs/cgroup").rglob(f"{stale_resources.make_owner_tag()}-test")]
        assert directories
        left = [directory.with_name(f"{dead}-1") for directory in directories]
        for directory in left:
            directory.mkdir()
        with ThreadPoolExecutor(4) as threads:
            for sweeping in [threads.submit(delegation.sweep_cgroups) for _ in range(4)]:
                sweeping.result()
        assert not any(directory.exists() for directory in left)
        assert all(directory.exists() for directory in directories)
    finally:
        ours.remove()


def test_whatever_a_program_leaves_in_its_directory_is_removed(tmp_path: Path) -> None:
    victim, work = filled(tmp_path / "victim"), tmp_path / "work"
    closed = filled(work / "closed")
    (work / "link").symlink_to(victim)
    (closed / "folder" / "link").symlink_to(victim)
    os.mkfifo(work / "pipe")
    (work / "-rf").write_text("")
    at = os.open(work, os.O_RDONLY)
    for _ in range(3000):  # deeper than a path can say, a function can call itself, or descriptors last
        os.mkdir("deeper", dir_fd=at)
        below = os.open("deeper", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    (closed / "folder").chmod(0)
    closed.chmod(0)
    work.chmod(0)
    try:
        directories.empty_directory(str(work))
        assert list(work.iterdir()) == []
    finally:
        subprocess.run(["rm", "-rf", work], check=False)  # pytest itself could not
    assert (victim / "folder" / "file").exists()


def test_a_directory_that_has_become_a_link_is_not_emptied(tmp_path: Path) -> None:
    victim = filled(tmp_path / "victim")
    (tmp_path / "work").symlink_to(victim)
    with pytest.raises(OSError, match="work"):
        directories.empty_directory(str(tmp_path / "work"))
    assert (victim / "folder" / "file").exists()
