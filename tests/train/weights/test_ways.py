"""Every way of handing weights over delivers the same tensors, and a source sees a version whole or not at all."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import forked  # noqa: E402
from blake3 import blake3  # noqa: E402

from train.errors import TransferError  # noqa: E402
from train.weights.checksums import compute_checksum  # noqa: E402
from train.weights.manifest import Probe  # noqa: E402
from train.weights.source import InProcessTransport, SharedMemoryTransport  # noqa: E402

ROOT = Path(__file__).parents[3]
PROBE = Probe(((1, 2, 3),), ((-0.5, -1.5),))


def model(version=0):
    draw = torch.Generator().manual_seed(version)
    tensors = {f"layers.{n}.weight": torch.randn(30 + n, 8, generator=draw) for n in range(6)}
    tensors["norm"] = torch.randn(8, generator=draw).bfloat16()
    return tensors | {"tied": tensors["layers.0.weight"]}


@pytest.fixture(params=["in process", "shared memory"])
def way(request):
    made = InProcessTransport() if request.param == "in process" else SharedMemoryTransport(file_bytes=2000)
    yield made
    made.close()


def test_tensors_arrive_as_they_were_sent(way):
    sent = model()
    copied = {name: tensor.clone() for name, tensor in sent.items()}
    manifest = way.publish(iter(sent.items()), 3, PROBE, 1.01)
    for tensor in sent.values():
        tensor.zero_()  # the learner goes on
    arrived = dict(way.fetch(manifest))
    assert list(arrived) == list(copied)
    assert all(arrived[name].equal(copied[name]) and arrived[name].dtype == copied[name].dtype for name in copied)
    assert (manifest.version, manifest.probe, manifest.max_error) == (3, PROBE, 1.01)
    assert {each.name: each.checksum for each in manifest.tensors} == {
        name: compute_checksum(tensor) for name, tensor in copied.items()
    }
    assert {(each.dtype, each.shape) for each in manifest.tensors if each.name == "norm"} == {("bfloat16", (8,))}


def test_files_have_a_bounded_size_and_a_digest():
    made = SharedMemoryTransport(file_bytes=2000)
    manifest = made.publish(model().items(), 1, None, 1.0)
    assert len(manifest.files) > 3
    for file, path in zip(manifest.files, made.fetch(manifest).paths, strict=True):
        assert path.stat().st_size == file.size < 3000
        assert blake3(path.read_bytes()).hexdigest() == file.blake3
    made.close()
    with pytest.raises(TransferError, match="weights 1 were removed"):
        made.fetch(manifest)


def test_a_version_that_newer_ones_have_replaced_is_gone(way):
    manifests = [way.publish(model(version).items(), version, None, 1.0) for version in range(4)]
    with pytest.raises(TransferError, match="weights 1 were removed"):
        way.fetch(manifests[1])
    assert dict(way.fetch(manifests[3]))["norm"].equal(model(3)["norm"])
    if not isinstance(way, InProcessTransport):
        assert dict(way.fetch(manifests[2]))["norm"].equal(model(2)["norm"])
    again = way.publish(model(7).items(), 3, None, 1.0)  # a run that was resumed at an earlier step
    assert dict(way.fetch(again))["norm"].equal(model(7)["norm"])


def failing(tensors):
    yield from list(tensors.items())[:5]
    raise RuntimeError("a rank is gone")


def test_half_a_version_is_never_seen(way):
    whole = way.publish(model(1).items(), 1, None, 1.0)
    with pytest.raises(RuntimeError, match="a rank is gone"):
        way.publish(failing(model(2)), 2, None, 1.0)
    assert dict(way.fetch(whole))["norm"].equal(model(1)["norm"])


def test_full_memory_is_named_and_harms_no_earlier_version():
    way = SharedMemoryTransport()
    whole = way.publish(model(1).items(), 1, None, 1.0)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))  # no file may be larger
    try:
        with pytest.raises(TransferError, match="cannot write weights 2 to memory: .*Free some memory"):
            way.publish([("w", torch.ones(1_000_000))], 2, None, 1.0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert dict(way.fetch(whole))["norm"].equal(model(1)["norm"])
    way.close()


WRITER = """
import sys, time, msgspec, torch
from train.weights.source import SharedMemoryTransport
manifest = SharedMemoryTransport().publish([("w", torch.arange(1000.0))], 5, None, 1.0)
print(msgspec.json.encode(manifest).decode(), flush=True)
time.sleep(600)
"""


def test_another_process_reads_memory_and_a_killed_writer_leaves_nothing():
    import msgspec

    from train.weights.manifest import WeightManifest

    writer = forked.Popen(
        [sys.executable, "-c", WRITER], env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE
    )
    reader = SharedMemoryTransport()
    try:
        manifest = msgspec.json.decode(writer.stdout.readline(), type=WeightManifest)
        assert dict(reader.fetch(manifest))["w"].equal(torch.arange(1000.0))
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        with pytest.raises(TransferError, match="weights 5 were removed"):
            reader.fetch(manifest)
    finally:
        writer.kill()
        writer.communicate()
