"""Weights over HTTP arrive whole, however often the connection breaks, and a machine fetches them once."""

import http.server
import os
import re
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import forked  # noqa: E402
import msgspec  # noqa: E402
from msgspec.structs import replace  # noqa: E402

from train.errors import TransferError  # noqa: E402
from train.weights import http_source  # noqa: E402
from train.weights.http_source import HttpSource  # noqa: E402
from train.weights.manifest import WeightFile, WeightManifest  # noqa: E402
from train.weights.source import write_files  # noqa: E402

ROOT = Path(__file__).parents[3]
TOKEN = {"authorization": "Bearer secret"}


def model(version=0):
    draw = torch.Generator().manual_seed(version)
    return {f"layers.{n}.weight": torch.randn(60_000, generator=draw) for n in range(4)}


class Server:
    """Serves the folders of a publisher, badly: `trouble` may change each reply."""

    def __init__(self, folder):
        self.folder, self.requests = folder, []
        self.trouble = lambda number, name, start: None
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.answer(self)

            def log_message(self, *words):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, request):
        version, name = re.fullmatch(r"/weights/(\d+)/([\w.-]+)", request.path).groups()
        start = int(re.fullmatch(r"bytes=(\d+)-", request.headers["range"])[1])
        self.requests.append((name, start))
        assert request.headers["authorization"] == "Bearer secret"
        path = self.folder / version / name
        trouble = self.trouble(len(self.requests), name, start)
        if trouble == "status" or not path.exists():
            request.send_error(503 if trouble else 404)
            return
        content = path.read_bytes()
        if trouble == "no ranges":
            start = 0
        request.send_response(200 if trouble == "no ranges" else 206)
        content = content[start:]
        request.send_header("content-length", str(len(content)))
        request.end_headers()
        if trouble == "breaks":
            content = content[: len(content) // 3]
        if trouble == "damages":
            content = content[:500] + b"?" + content[501:]
        if trouble == "slow":
            request.wfile.write(content[:1000])
            request.wfile.flush()
            time.sleep(30)
        request.wfile.write(content)

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def publisher(tmp_path):
    """Return the folder of what the server offers."""
    return tmp_path / "published"


@pytest.fixture
def server(tmp_path):
    started = Server(tmp_path / "published")
    yield started
    started.close()


@pytest.fixture
def source(tmp_path, server, monkeypatch):
    monkeypatch.setattr(http_source, "_MIN_BACKOFF_SECONDS", 0.01)
    made = HttpSource(server.url, TOKEN, tmp_path / "fetched")
    yield made
    made.close()


def published(publisher, version=1) -> WeightManifest:
    folder = publisher / str(version)
    folder.mkdir(parents=True, exist_ok=True)

    def write(number, content):
        (folder / f"weights-{number:05d}.safetensors").write_bytes(content)
        return f"weights-{number:05d}.safetensors"

    return replace(write_files(model(version).items(), write, 300_000), version=version)


def folders(path):
    return sorted(each.name for each in path.glob("weights-*"))


def same(files, version):
    arrived = dict(files)
    return all(arrived[name].equal(tensor) for name, tensor in model(version).items()) and len(arrived) == 4


def test_files_arrive_and_older_ones_go_when_they_are_not_read_any_more(publisher, server, source, tmp_path):
    first = source.fetch(published(publisher, 1))
    assert same(first, 1)
    assert len(first.paths) == 4
    second = source.fetch(published(publisher, 2))
    assert same(second, 2)
    assert len(folders(tmp_path / "fetched")) == 1
    n_requests = len(server.requests)
    assert same(source.fetch(published(publisher, 2)), 2)  # it is there already
    assert len(server.requests) == n_requests == 8
    source.close()
    assert folders(tmp_path / "fetched") == []


@pytest.mark.parametrize("kind", ["breaks", "status"])
def test_a_download_that_breaks_off_goes_on_where_it_stopped(kind, publisher, server, source):
    server.trouble = lambda number, name, start: kind if number % 3 else None
    assert same(source.fetch(published(publisher)), 1)
    assert (max(start for _, start in server.requests) > 0) == (kind == "breaks")


def test_a_server_without_ranges_is_no_obstacle(publisher, server, source):
    kinds = {1: "breaks", 2: "breaks", 3: "breaks", 4: "breaks"}
    server.trouble = lambda number, name, start: kinds.get(number, "no ranges")
    assert same(source.fetch(published(publisher)), 1)


def test_a_damaged_file_is_fetched_again_and_a_server_that_always_damages_is_named(publisher, server, source, tmp_path):
    server.trouble = lambda number, name, start: "damages" if number == 2 else None
    assert same(source.fetch(published(publisher)), 1)
    server.trouble = lambda number, name, start: "damages"
    with pytest.raises(TransferError, match="differs from its digest in the manifest, twice"):
        source.fetch(published(publisher, 2))
    assert len([name for name in folders(tmp_path / "fetched") if not name.endswith(".part")]) == 1


def test_weights_that_vanish_in_the_midst_are_named(publisher, server, source, tmp_path):
    manifest = published(publisher)

    def vanish(number, name, start):
        if number == 3:
            shutil.rmtree(publisher)

    server.trouble = vanish
    with pytest.raises(TransferError, match=r"weights 1 were removed: http.* returns HTTP 404 for weights-0000"):
        source.fetch(manifest)
    server.trouble = lambda number, name, start: None
    assert same(source.fetch(published(publisher, 2)), 2)
    assert len(folders(tmp_path / "fetched")) == 1  # half of version 1 is not kept


def test_a_server_that_is_gone_is_given_up_after_some_attempts(publisher, server, source):
    manifest = published(publisher)
    server.close()
    with pytest.raises(TransferError, match=r"stalls at 0 of \d\d\d,\d\d\d bytes"):
        source.fetch(manifest)


def test_a_full_disk_is_named_before_anything_is_fetched(publisher, server, source):
    manifest = published(publisher)
    huge = replace(manifest, files=(*manifest.files, WeightFile("huge", 10**15, "00")))
    with pytest.raises(TransferError, match=r"1,000,000,[\d,]+ bytes are missing, and [\d,]+ are free. Free disk"):
        source.fetch(huge)
    assert server.requests == []


def test_what_a_crash_has_left_in_parts_is_fetched_again(publisher, server, source, tmp_path):
    manifest = published(publisher)
    files = source.fetch(manifest)
    os.truncate(files.paths[1], 100)  # as after a loss of power: the name is there, and the content is not
    assert same(HttpSource(server.url, TOKEN, tmp_path / "fetched").fetch(manifest), 1)


def test_files_that_vanish_before_they_are_read_are_named(publisher, source):
    files = source.fetch(published(publisher))
    files.paths[2].unlink()
    with pytest.raises(TransferError, match=r"weights-00002.safetensors: fetched weights cannot be read"):
        dict(files)


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "", ".hidden", "a/b"])
def test_a_manifest_cannot_name_files_elsewhere(name, publisher, server, source):
    with pytest.raises(TransferError, match="which is not a plain file name"):
        source.fetch(replace(published(publisher), files=(WeightFile(name, 1, "00"),)))


def test_processes_of_a_machine_fetch_a_version_once(publisher, server, tmp_path):
    manifest = published(publisher)
    sources = [HttpSource(server.url, TOKEN, tmp_path / "fetched") for _ in range(3)]
    found = []
    threads = [threading.Thread(target=lambda each=each: found.append(each.fetch(manifest))) for each in sources]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(server.requests) == 4
    sources[0].fetch(published(publisher, 2))
    assert len(folders(tmp_path / "fetched")) == 2  # two of them still read version 1
    assert all(same(files, 1) for files in found)
    for each in sources:
        each.close()
    assert folders(tmp_path / "fetched") == []


FETCHER = """
import sys, msgspec
from pathlib import Path
from train.weights import http_source
from train.weights.manifest import WeightManifest
http_source._CONNECTIONS = 1
manifest = msgspec.json.decode(sys.argv[1].encode(), type=WeightManifest)
http_source.HttpSource(sys.argv[2], {"authorization": "Bearer secret"}, Path(sys.argv[3])).fetch(manifest)
"""


def test_a_killed_process_blocks_nobody_and_its_part_is_used(publisher, server, source, tmp_path):
    manifest = published(publisher)
    server.trouble = lambda number, name, start: "slow" if number == 3 else None
    fetcher = forked.Popen(
        [sys.executable, "-c", FETCHER, msgspec.json.encode(manifest).decode(), server.url, str(tmp_path / "fetched")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    until = time.monotonic() + 60
    while len(server.requests) < 3 and time.monotonic() < until:
        time.sleep(0.01)
    fetcher.send_signal(signal.SIGKILL)
    fetcher.wait()
    assert same(source.fetch(manifest), 1)
    assert len(server.requests) == 5  # the third file again, and the fourth
