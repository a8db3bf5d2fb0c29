"""`curate relay` and `curate rollout --relay` in processes of their own."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import forked
import pytest
from curate_command import curate
from published_weights import PUBLIC, RUN, publish, relay

from sandbox.concurrency.file_lock import FileLock
from train.swarm.broadcast.relay_source import RelaySource

ROOT = Path(__file__).parents[3]
SECONDS = 60


@contextmanager
def relay_process(*options: str) -> Iterator[str]:
    """Start `curate relay`, and yield what it says before it serves."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "cli", "relay", "--listen", "127.0.0.1:0", *options]
    process = forked.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        said = ""
        while "serves on" not in said:
            line = process.stdout.readline()
            assert line, f"it ended with {process.wait()} after {said!r}"
            said += line
        yield said
        process.terminate()
        assert process.wait(SECONDS) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def url_in(said: str) -> str:
    return re.findall(r"serves on (\S+)", said)[0]


def test_weights_pass_through_relays_that_are_processes(tmp_path: Path) -> None:
    publish(tmp_path, range(3))
    options = ("--run", RUN, "--public-key", PUBLIC.hex())
    with (
        relay(tmp_path) as origin,
        relay_process("--from", origin, *options, "--folder", str(tmp_path / "first")) as first,
        relay_process("--from", url_in(first), *options, "--folder", str(tmp_path / "second")) as second,
    ):
        source = RelaySource([url_in(second)], RUN, PUBLIC, tmp_path / "node", stall_seconds=SECONDS)
        until = time.monotonic() + SECONDS
        while not (tmp_path / "second" / "runs" / RUN / "latest").exists():
            assert time.monotonic() < until
            time.sleep(0.05)
        files = source.fetch(source.fetch_newest_manifest())
        for path in files.paths:
            assert path.read_bytes() == (tmp_path / "weights" / "2" / path.name).read_bytes()
        source.close()


def test_two_relays_do_not_share_a_folder(tmp_path: Path) -> None:
    options = ["--from", "http://127.0.0.1:1", "--run", RUN, "--public-key", PUBLIC.hex(), "--folder", str(tmp_path)]
    with FileLock(tmp_path / ".lock"):
        result = curate("relay", "--listen", "127.0.0.1:0", *options)
    assert result.exit_code == 1
    assert f"another relay is writing to {tmp_path}. Stop it, or choose another --folder." in result.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "give one of --from, --invite and --controller"),
        (["--from", "http://a", "--controller", "http://b"], "give one of"),
        (["--from", "http://a"], "--from needs --run and --public-key"),
        (["--from", "http://a", "--run", "../x", "--public-key", "00" * 32], "is not a run name. Use letters, digits"),
        (["--from", "http://a", "--run", "x", "--public-key", "zz"], "a public key has 64 hexadecimal digits"),
        (["--invite", "what?"], "this is not an invite"),
        (["--controller", "http://127.0.0.1:1"], "--controller needs --key"),
        (["--controller", "nowhere", "--key", "k"], "--controller must be http://HOST:PORT"),
        (["--listen", "8710", "--from", "http://a"], "--listen must be HOST:PORT"),
        (["--from", "a:8710", "--run", "x", "--public-key", "00" * 32], "a URL is http://HOST:PORT"),
    ],
)
def test_what_is_wrong_with_the_options_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    listen = [] if "--listen" in options else ["--listen", "127.0.0.1:0"]
    result = curate("relay", *options, *listen)
    assert not list(tmp_path.iterdir())  # nothing is left behind, least of all a key
    assert result.exit_code in (1, 2)
    assert words in result.output
