"""The sweeps remove the resources of exited processes, and no others, also next to entries of hostile users."""

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sandbox.kernel import cgroups, delegation, directories, stale_resources


@pytest.fixture
def stale_name() -> str:
    """Return the name of a resource of an exited process."""
    print_name = "from sandbox.kernel.stale_resources import make_owner_tag; print(make_owner_tag())"
    done = subprocess.run(
        [sys.executable, "-c", print_name], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3]
    )
    return done.stdout.strip()


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def make_tree(directory: Path) -> Path:
    directory.mkdir(parents=True)
    (directory / "folder").mkdir()
    (directory / "folder" / "file").write_text("x")
    return directory


def test_the_sweep_removes_only_directories_of_exited_processes(temporary: Path, stale_name: str) -> None:
    left, kept = (
        make_tree(temporary / f"{stale_name}-a"),
        make_tree(temporary / f"{stale_resources.make_owner_tag()}-b"),
    )
    others = [
        make_tree(temporary / name) for name in ("other", "curate-sandbox-", "curate-sandbox-x-1-2", f"a{stale_name}")
    ]
    stale_resources.sweep_directories()
    assert not left.exists()
    assert all((directory / "folder" / "file").exists() for directory in [kept, *others])


def test_no_link_is_followed(temporary: Path, stale_name: str) -> None:
    victim = make_tree(temporary / "victim")
    (temporary / f"{stale_name}-link").symlink_to(victim)
    left = make_tree(temporary / f"{stale_name}-a")
    (left / "link").symlink_to(victim)
    (left / "folder" / "link").symlink_to(victim)
    (left / "folder" / "file-link").symlink_to(victim / "folder" / "file")
    (temporary / f"{stale_name}-file").write_text("no directory")
    victim.chmod(0o751)
    stale_resources.sweep_directories()
    assert not left.exists()
    assert (victim / "folder" / "file").read_text() == "x"
    assert victim.stat().st_mode & 0o777 == 0o751


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_another_user_stays(temporary: Path, stale_name: str) -> None:
    planted = make_tree(temporary / f"{stale_name}-planted")
    os.chown(planted, 12345, 12345)
    stale_resources.sweep_directories()
    assert (planted / "folder" / "file").exists()


def test_concurrent_sweeps_do_not_fail(temporary: Path, stale_name: str) -> None:
    for turn in range(20):
        for number in range(10):
            make_tree(temporary / f"{stale_name}-{turn}-{number}")
        with ThreadPoolExecutor(4) as threads:
            for sweeping in [threads.submit(stale_resources.sweep_directories) for _ in range(4)]:
                sweeping.result()
        stale_resources.sweep_directories()
        assert list(temporary.iterdir()) == []


def test_a_missing_temporary_directory_is_no_error(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "missing"))
    stale_resources.sweep_directories()


def test_concurrent_sweeps_remove_only_cgroups_of_exited_processes(stale_name: str) -> None:
    try:
        ours = cgroups.create_cgroup(delegation.find_subtree(), "test")
    except OSError as error:
        pytest.skip(f"cannot create a cgroup: {error}")
    try:
        directories = [path for path in Path("/sys/fs/cgroup").rglob(f"{stale_resources.make_owner_tag()}-test")]
        assert directories
        left = [directory.with_name(f"{stale_name}-1") for directory in directories]
        for directory in left:
            directory.mkdir()
        with ThreadPoolExecutor(4) as threads:
            for sweeping in [threads.submit(delegation.sweep_cgroups) for _ in range(4)]:
                sweeping.result()
        assert not any(directory.exists() for directory in left)
        assert all(directory.exists() for directory in directories)
    finally:
        ours.remove()


def test_a_hostile_directory_is_emptied(tmp_path: Path) -> None:
    victim, work = make_tree(tmp_path / "victim"), tmp_path / "work"
    closed = make_tree(work / "closed")
    (work / "link").symlink_to(victim)
    (closed / "folder" / "link").symlink_to(victim)
    os.mkfifo(work / "pipe")
    (work / "-rf").write_text("")
    at = os.open(work, os.O_RDONLY)
    for _ in range(3000):  # beyond PATH_MAX, the recursion limit, and the limit of descriptors
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
        subprocess.run(["rm", "-rf", work], check=False)  # pytest's own removal would fail
    assert (victim / "folder" / "file").exists()


def test_a_link_to_a_directory_is_not_emptied(tmp_path: Path) -> None:
    victim = make_tree(tmp_path / "victim")
    (tmp_path / "work").symlink_to(victim)
    with pytest.raises(OSError, match="work"):
        directories.empty_directory(str(tmp_path / "work"))
    assert (victim / "folder" / "file").exists()
