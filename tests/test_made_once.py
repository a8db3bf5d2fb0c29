"""What a test run shares is made once."""

import multiprocessing
import os
from pathlib import Path

import pytest
from run_folder import locked, make_once


def _make(folder: Path) -> None:
    (folder / str(os.getpid())).touch()


def test_one_of_several_processes_makes_what_all_of_them_use(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        folders = pool.starmap(make_once, [(tmp_path / "shared", _make)] * 6)
    assert folders == [tmp_path / "shared"] * 6
    assert len(list((tmp_path / "shared").iterdir())) == 1


def test_what_could_not_be_made_is_made_again_from_an_empty_folder(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        make_once(tmp_path / "shared", fail)
    assert [path.name for path in make_once(tmp_path / "shared", _make).iterdir()] == [str(os.getpid())]


def test_a_child_forked_under_a_lock_does_not_hold_it(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    with locked(tmp_path / "lock"):
        child = os.fork()
        if child == 0:
            os.close(writer)
            os.read(reader, 1)  # until the parent has the lock again
            os._exit(0)
    os.close(reader)
    with locked(tmp_path / "lock"):
        os.close(writer)
    assert os.waitpid(child, 0)[1] == 0
