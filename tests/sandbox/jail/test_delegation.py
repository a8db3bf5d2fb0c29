"""Cgroups are made only below one that is ours; whatever is in them ends with them. With systemd itself, all of this is
tried in tests/machines."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox import machine
from sandbox.jail import cgroups, delegation

SERVICE = "system.slice/train.service"


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Put this process into a cgroup of a v2 hierarchy that systemd manages, and return the cgroup's directory."""

    def enter(path: str, **files: str) -> Path:
        directory = tmp_path / path
        directory.mkdir(parents=True)
        (tmp_path / "cgroup.controllers").write_text("cpu memory pids")
        for name, content in {"cgroup_procs": "", "cgroup_subtree_control": "", **files}.items():
            (directory / name.replace("_", ".", 1)).write_text(content)
        mounts = f"30 29 0:26 / {tmp_path} rw - cgroup2 cgroup2 rw\n"
        monkeypatch.setattr(machine, "memberships_and_mounts", lambda: (f"0::/{path}\n", mounts))
        monkeypatch.setattr(delegation, "_SYSTEMD", tmp_path)
        return directory

    return enter


def delegate(directory: Path) -> None:
    os.setxattr(directory, "user.delegate", b"1")


def test_a_delegated_unit_holds_our_cgroups(inside: Callable[..., Path]) -> None:
    directory = inside(SERVICE)
    delegate(directory)
    assert delegation.make_scope_command() == []
    assert delegation.find_subtree() == delegation.CgroupSubtree(2, {"memory": directory, "pids": directory})


def test_a_leaf_that_we_have_made_leads_to_the_unit_around_it(inside: Callable[..., Path]) -> None:
    leaf = inside(f"{SERVICE}/curate-others")
    delegate(leaf.parent)
    (leaf.parent / "cgroup.subtree_control").touch()
    assert delegation.find_subtree().bases["memory"] == leaf.parent


def test_the_root_that_a_container_sees_is_ours(inside: Callable[..., Path], tmp_path: Path) -> None:
    inside("below")
    (tmp_path / "cgroup.subtree_control").touch()
    mounts = f"30 29 0:26 /below {tmp_path / 'below'} rw - cgroup2 cgroup2 rw\n"
    (tmp_path / "below" / "cgroup.controllers").write_text("memory pids")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "memberships_and_mounts", lambda: ("0::/below\n", mounts))
        assert delegation.find_subtree().bases["pids"] == tmp_path / "below"


def test_a_unit_without_delegation_is_left_alone(inside: Callable[..., Path]) -> None:
    directory = inside(SERVICE, pids_max="max")
    before = sorted(directory.iterdir())
    with pytest.raises(OSError, match=r"systemd has not delegated .*train\.service"):
        delegation.find_subtree()
    assert sorted(directory.iterdir()) == before
    assert (directory / "cgroup.subtree_control").read_text() == ""


@pytest.mark.parametrize(
    ("files", "setting"),
    [
        ({"cpu_max": "50000 100000"}, "CPUQuota"),
        ({"memory_max": "734003200"}, "MemoryMax"),
        ({"pids_max": "60"}, "TasksMax"),
    ],
)
def test_nothing_runs_beside_a_unit_that_has_limits(
    inside: Callable[..., Path], files: dict[str, str], setting: str
) -> None:
    inside(SERVICE, **files)
    with pytest.raises(PermissionError, match=f"{setting}.*systemctl edit train.service"):
        delegation.make_scope_command()


def test_a_login_shell_gets_a_scope_in_its_slice(inside: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    inside("user.slice/user-0.slice/session-2.scope", cpu_max="max 100000", memory_max="max", pids_max="max")
    monkeypatch.setattr(delegation.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    command = delegation.make_scope_command()
    assert {"--scope", "--property=Delegate=yes", "--slice=user-0.slice"} <= set(command)


def test_a_user_without_a_manager_is_told_what_to_type(
    inside: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    inside("user.slice/user-0.slice/session-2.scope")
    monkeypatch.setattr(delegation.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    assert "sudo systemd-run --uid=$USER -p Delegate=yes" in delegation.explain_scope_failure()


def test_no_process_outlives_its_cgroup() -> None:
    try:
        cgroup = cgroups.create(delegation.find_subtree(), "test")
    except OSError as error:
        pytest.skip(f"the test is about a cgroup, and none can be made: {error}")
    pid = os.fork()
    if pid == 0:
        signal.pause()
    cgroup.add(pid)
    cgroup.remove()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
