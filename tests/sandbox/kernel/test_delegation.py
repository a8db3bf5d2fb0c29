"""The sandbox creates cgroups only below a delegated one, and kills their processes on removal. tests/machines has
tests with systemd itself."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox import machine
from sandbox.kernel import cgroups, delegation

SERVICE = "system.slice/train.service"


@pytest.fixture
def enter_cgroup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Return a function that simulates a v2 cgroup of this process below systemd, and returns its directory."""

    def enter(path: str, **files: str) -> Path:
        directory = tmp_path / path
        directory.mkdir(parents=True)
        (tmp_path / "cgroup.controllers").write_text("cpu memory pids")
        for name, content in {"cgroup_procs": "", "cgroup_subtree_control": "", **files}.items():
            (directory / name.replace("_", ".", 1)).write_text(content)
        mounts = f"30 29 0:26 / {tmp_path} rw - cgroup2 cgroup2 rw\n"
        monkeypatch.setattr(machine, "read_memberships_and_mounts", lambda: (f"0::/{path}\n", mounts))
        monkeypatch.setattr(delegation, "_SYSTEMD", tmp_path)
        return directory

    return enter


def delegate(directory: Path) -> None:
    os.setxattr(directory, "user.delegate", b"1")


def test_a_delegated_unit_holds_our_cgroups(enter_cgroup: Callable[..., Path]) -> None:
    directory = enter_cgroup(SERVICE)
    delegate(directory)
    assert delegation.make_scope_command() == []
    assert delegation.find_subtree() == delegation.CgroupSubtree(2, {"memory": directory, "pids": directory})


def test_our_leaf_leads_to_its_unit(enter_cgroup: Callable[..., Path]) -> None:
    leaf = enter_cgroup(f"{SERVICE}/curate-others")
    delegate(leaf.parent)
    (leaf.parent / "cgroup.subtree_control").touch()
    assert delegation.find_subtree().bases["memory"] == leaf.parent


def test_the_root_cgroup_of_a_container_is_delegated(enter_cgroup: Callable[..., Path], tmp_path: Path) -> None:
    enter_cgroup("below")
    (tmp_path / "cgroup.subtree_control").touch()
    mounts = f"30 29 0:26 /below {tmp_path / 'below'} rw - cgroup2 cgroup2 rw\n"
    (tmp_path / "below" / "cgroup.controllers").write_text("memory pids")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "read_memberships_and_mounts", lambda: ("0::/below\n", mounts))
        assert delegation.find_subtree().bases["pids"] == tmp_path / "below"


def test_a_unit_without_delegation_is_unchanged(enter_cgroup: Callable[..., Path]) -> None:
    directory = enter_cgroup(SERVICE, pids_max="max")
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
def test_a_unit_with_limits_gets_no_scope(
    enter_cgroup: Callable[..., Path], files: dict[str, str], setting: str
) -> None:
    enter_cgroup(SERVICE, **files)
    with pytest.raises(PermissionError, match=f"{setting}.*systemctl edit train.service"):
        delegation.make_scope_command()


def test_a_login_shell_gets_a_scope_in_its_slice(
    enter_cgroup: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    enter_cgroup("user.slice/user-0.slice/session-2.scope", cpu_max="max 100000", memory_max="max", pids_max="max")
    monkeypatch.setattr(delegation.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    command = delegation.make_scope_command()
    assert {"--scope", "--property=Delegate=yes", "--slice=user-0.slice"} <= set(command)


def test_without_a_user_manager_the_reason_names_the_remedy(
    enter_cgroup: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    enter_cgroup("user.slice/user-0.slice/session-2.scope")
    monkeypatch.setattr(delegation.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    assert "sudo systemd-run --uid=$USER -p Delegate=yes" in delegation.explain_scope_failure()


def test_no_process_outlives_its_cgroup() -> None:
    try:
        cgroup = cgroups.create_cgroup(delegation.find_subtree(), "test")
    except OSError as error:
        pytest.skip(f"cannot create a cgroup: {error}")
    pid = os.fork()
    if pid == 0:
        signal.pause()
    cgroup.add_process(pid)
    cgroup.remove()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
