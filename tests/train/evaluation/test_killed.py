"""An evaluation that is killed and continued writes the same bytes as one that was not."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import forked
import tiny_world
from loopback_server import answering
from source_rows import write_jsonl

ROOT = Path(__file__).parents[3]
RIGHT, WRONG = (tiny_world.fenced(code) for code in ("print(sum(map(int, input().split())))", "print(0)"))


@contextmanager
def serving(delay_seconds):
    """Serve a model whose answer depends on the prompt and the seed alone."""

    def reply(path, number, asked):
        if asked is None:
            return 200, {"data": [{"id": "canned", "max_model_len": 4096}]}
        time.sleep(delay_seconds)
        digest = hashlib.sha256(f"{asked['messages']} {asked['seed']}".encode()).digest()[0]
        choice = {
            "message": {"content": RIGHT if digest % 2 else WRONG},
            "finish_reason": "length" if digest % 5 == 0 else "stop",
        }
        return 200, {"choices": [choice], "usage": {"completion_tokens": digest}}

    with answering(reply) as (url, _):
        yield url


def test_kill_and_continue_gives_the_same_bytes(tmp_path):
    data = write_jsonl(tmp_path / "test.jsonl", tiny_world.rows())

    def start(out, url):
        words = ["evaluate", "--model", "canned", "--base-url", url, "--data", data, "--k", 4, "--workers", 2]
        words += ["--engine", "concurrency=2", "--out", out]
        return forked.Popen(
            [sys.executable, "-m", "cli", *map(str, words)],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    with serving(0.0) as url:
        killed, whole = tmp_path / "killed" / "r.json", tmp_path / "whole" / "r.json"
        whole.parent.mkdir()
        undisturbed = start(whole, url)
        printed = undisturbed.communicate()[0].decode()
        assert undisturbed.returncode == 0, printed
        journal = killed.with_name("r.json.samples.jsonl")
        killed.parent.mkdir()
        with serving(0.3) as slow:
            process = start(killed, slow)
            while process.poll() is None and not (journal.exists() and len(journal.read_bytes().splitlines()) >= 5):
                time.sleep(0.02)
            assert process.poll() is None, "it ended before it could be killed"
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        assert not killed.exists()
        continued = start(killed, url)
        printed_again = continued.communicate()[0].decode()
        assert continued.returncode == 0, printed_again
    written = [path.read_bytes().replace(url.encode(), b"") for path in (killed, whole)]
    assert written[0] == written[1]
    assert len(json.loads(written[0])["problems"]) == 6
