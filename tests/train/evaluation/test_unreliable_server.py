"""An evaluation gets through whatever a server does now and then, with the same result."""

import hashlib
import itertools
import threading

import tiny_world
from curate_command import curate
from hiccups import HICCUPS
from loopback_server import answering
from source_rows import write_jsonl

RIGHT, WRONG = (tiny_world.fenced(code) for code in ("print(sum(map(int, input().split())))", "print(0)"))


def completion(asked):
    digest = hashlib.sha256(f"{asked['messages']} {asked['seed']}".encode()).digest()[0]
    choice = {"message": {"content": RIGHT if digest % 2 else WRONG}, "finish_reason": "stop"}
    return 200, {"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": digest + 1}}


def evaluated(data, out, reply):
    with answering(reply) as (url, _):
        curate(
            "evaluate", "--model", "canned", "--base-url", url, "--data", data, "--k", 44, "--workers", 2,
            "--engine", "concurrency=32", "--request-timeout", 1, "--out", out, check=True,
        )  # fmt: skip
    return out.read_bytes().replace(url.encode(), b"")


def test_one_of_ten_requests_goes_wrong_and_the_result_is_the_same(tmp_path):
    data = write_jsonl(tmp_path / "test.jsonl", tiny_world.rows())
    lock, kinds, met = threading.Lock(), itertools.cycle(HICCUPS), set()

    def unreliable(path, number, asked):
        with lock:
            kind = next(kinds) if number % 10 == 5 else None
            met.add(kind)
        if kind is not None:
            return HICCUPS[kind]
        return (200, {"data": [{"id": "canned"}]}) if asked is None else completion(asked)

    good = evaluated(
        data,
        tmp_path / "good.json",
        lambda path, number, asked: (200, {"data": [{"id": "canned"}]}) if asked is None else completion(asked),
    )
    assert evaluated(data, tmp_path / "bad.json", unreliable) == good
    assert met == {None, *HICCUPS}
