"""What is advised before --resume depends on what the disk says, in whatever words it comes."""

import errno
import os
from pathlib import Path

import pytest
from curate_command import curate

from train.errors import suggest_remedy


@pytest.mark.parametrize(
    ("error", "words"),
    [
        pytest.param(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "Make room", id="full"),
        pytest.param(OSError(errno.EROFS, os.strerror(errno.EROFS), "x"), "Make the folder writable", id="read-only"),
        pytest.param(OSError(errno.EMFILE, os.strerror(errno.EMFILE)), "Allow more open files", id="files"),
        pytest.param(RuntimeError("I/O error: Read-only file system (os error 30)"), "Make the folder", id="of Rust"),
        pytest.param(RuntimeError("rank 1: OSError: [Errno 28] No space left"), "Make room", id="of a rank"),
        pytest.param(OSError(errno.EIO, os.strerror(errno.EIO)), "Correct that", id="another one"),
    ],
)
def test_the_advice_fits_the_error(error, words):
    assert suggest_remedy(error).startswith(words)


def test_a_run_that_cannot_write_says_what_to_do_before_it_is_resumed(small: Path):
    result = curate("train", small, "--out", "/dev/null/run")
    assert result.exit_code == 1, result.output
    assert "/dev/null/run. Correct that; --resume continues." in result.output
