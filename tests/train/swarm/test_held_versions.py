"""A verifier has the versions that it needs before it needs them."""

import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from published_weights import PUBLIC, RUN, honest, publish, relay, weights

from train.errors import TransferError
from train.swarm.invites import Invite
from train.swarm.verification.verifier_process import VersionPrefetcher


def held(url: str, folder: Path, came: list[int], keep: int = 2) -> VersionPrefetcher:
    invite = Invite(RUN, url, (), PUBLIC, "verifier", 0.0, bytes(16))
    return VersionPrefetcher(invite, keep=keep, on_fetched=came.append, folder=folder)


def until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_version_that_is_here_does_not_wait_for_one_that_is_on_its_way(tmp_path: Path) -> None:
    origin = publish(tmp_path, range(2))
    asked, gate = threading.Event(), threading.Event()

    def slow(handler: BaseHTTPRequestHandler, content: bytes | None) -> None:
        if "/2/model" in handler.path:
            asked.set()
            gate.wait(30)
        honest(handler, content)

    came: list[int] = []
    with relay(tmp_path, slow) as url:
        versions = held(url, tmp_path / "held", came)
        versions.start()
        versions.wait_for_first(30, lambda: bool(time.sleep(0.02)))
        origin.publish(weights(tmp_path / "weights", 2), tmp_path / "weights" / "2")
        assert asked.wait(30)
        files = versions.fetch_files(1)
        assert came == [1]
        assert [file.read_bytes() for file in files] == [
            (tmp_path / "weights" / "1" / file.name).read_bytes() for file in files
        ]
        gate.set()
        until(lambda: came == [1, 2])
        versions.close()


def test_a_verifier_without_any_weights_ends_with_an_error(tmp_path: Path) -> None:
    (tmp_path / "public").mkdir()
    with relay(tmp_path) as url:
        versions = held(url, tmp_path / "held", [])
        versions.start()
        with pytest.raises(TransferError, match="there are no weights"):
            versions.wait_for_first(0.1, lambda: bool(time.sleep(0.02)))
        versions.close()


def test_a_verifier_ends_if_relays_name_a_version_and_never_send_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("train.swarm.verification.verifier_process.STALL_SECONDS", 0.3)
    publish(tmp_path, range(1))

    def without_shards(handler: BaseHTTPRequestHandler, content: bytes | None) -> None:
        if "/model-00000" in handler.path:
            handler.send_error(404)
        else:
            honest(handler, content)

    end = time.monotonic() + 20
    with relay(tmp_path, without_shards) as url:
        versions = held(url, tmp_path / "held", [])
        versions.start()
        with pytest.raises(TransferError, match="there are no weights"):
            versions.wait_for_first(1.0, lambda: time.monotonic() > end or bool(time.sleep(0.02)))
        versions.close()
