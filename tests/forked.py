"""`Popen` and `run`, as in subprocess, for our commands and Python: children are forks of the zygote of the test run.

    forked.run([sys.executable, "-m", "cli", "stats", folder], capture_output=True, text=True)
    forked.Popen(["curate", "train", config], stdout=subprocess.PIPE, start_new_session=True)

They take what subprocess takes, except preexec_fn, pass_fds and shell. The first use of a test run starts the zygote;
see tests/zygote.py.
"""

import os
import select
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tiny_world
import zygote
import zygote_client
from run_folder import CONTROLLER, make_once, run_folder

PRELOADS = True  # whether the zygote imports anything before it forks


def socket_path() -> str:
    """Return the path of the zygote's socket; start the zygote if there is none."""
    return str(make_once(run_folder() / "zygote", _start_zygote) / "socket")


def _start_zygote(folder: Path) -> None:
    """Start the zygote with a socket that already listens, so that requests wait for its imports."""
    environment = {**os.environ, **tiny_world.ENVIRONMENT, "VLLM_LOGGING_LEVEL": "ERROR"}
    environment["JE_ARROW_MALLOC_CONF"] = "background_thread:false"
    environment["PYTHONPATH"] = str(Path(zygote.__file__).parent)
    with socket.socket(socket.AF_UNIX, zygote_client.SOCKET_TYPE) as listener:
        listener.bind(str(folder / "socket"))
        listener.listen(128)
        reader, writer = os.pipe()  # streams that cannot be seeked, as most of the children's
        command = [sys.executable, "-P", zygote.__file__, str(run_folder()), str(listener.fileno())]
        process = subprocess.Popen(
            [*command, (run_folder() / CONTROLLER).read_text(), str(PRELOADS)],
            env=environment,
            pass_fds=[listener.fileno()],
            stdin=reader,
            stdout=writer,
            stderr=writer,
            start_new_session=True,
        )
        process.wait()  # what goes on is a fork of it
        os.close(reader)
        os.close(writer)


def shell_command(*arguments: str) -> str:
    """Return a command for shells that has the zygote fork a child with these arguments, and stands in for it."""
    return shlex.join([sys.executable, "-I", "-S", "-E", zygote_client.__file__, socket_path(), *arguments])


def python() -> str:
    """Return the path of a `python` that a process starts in place of sys.executable, and that is a fork.

    It runs as long as the fork, has its arguments, and kills it when it is killed.
    """
    path = run_folder() / "python"
    if not path.exists():
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as script:
            script.write(f'#!/bin/sh\nexec {shell_command("python")} "$@"\n')
        os.chmod(script.name, 0o700)
        os.replace(script.name, path)
    return str(path)


class Popen(subprocess.Popen[Any]):
    """A child of the zygote. Its process id is real, and its exit status comes over the connection to the zygote."""

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, pass_fds: Any, cwd: Any,
                       env: Any, startupinfo: Any, creationflags: Any, shell: Any, *rest: Any) -> None:  # fmt: skip
        stdin, _, _, stdout, _, stderr, *_, start_new_session, _ = rest
        pipes = rest[:6]
        assert not any((preexec_fn, pass_fds, shell)), "a child of the zygote is no child of this process"
        descriptors = [own if given == -1 else given for own, given in enumerate((stdin, stdout, stderr))]
        self._connection = zygote_client.connect(socket_path())
        try:
            self.pid = zygote_client.request(
                self._connection,
                [os.fspath(word) for word in args],
                os.path.abspath(cwd or os.getcwd()),
                os.environ if env is None else env,
                descriptors,
                start_new_session=start_new_session,
            )
        except BaseException:
            self._connection.close()
            raise
        finally:
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]  # of subprocess.Popen
        self._child_created = True

    def leave_to_run(self) -> None:
        """Let the process go on until the test run ends, when the zygote kills it."""
        self._connection.close()
        self.returncode = 0

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        return self._status(0)

    def _wait(self, timeout: float | None) -> int:
        status = self._status(timeout)
        if status is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return status

    def _status(self, seconds: float | None) -> int | None:
        if self.returncode is None and select.select([self._connection], [], [], seconds)[0]:
            with self._waitpid_lock:  # type: ignore[attr-defined]  # another thread may wait, too
                if self.returncode is None:
                    self.returncode = zygote_client.status_of(self._connection)
                    self._connection.close()
        return self.returncode


def run(
    arguments: Sequence[str | os.PathLike[str]],
    *,
    input: Any = None,
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """Run a child as subprocess.run does."""
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if input is not None:
        options["stdin"] = subprocess.PIPE
    with Popen(arguments, **options) as process:
        try:
            stdout, stderr = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)
    if check:
        done.check_returncode()
    return done
