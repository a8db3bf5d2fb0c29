"""A difference makes the new file out of the old one, to the last bit, and nothing out of anything else."""

import random
import shutil
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from published_weights import PUBLIC, RUN, download, publish, relay

from train.swarm.broadcast.delta import BadDelta, apply_delta, make_delta
from train.swarm.broadcast.relay_client import RelayClient
from train.swarm.broadcast.relay_selector import RelaySelector
from train.swarm.broadcast.relay_source import VersionStore

# 0, -0, the smallest and largest subnormal, one, infinities, and several NaNs of bfloat16.
_SPECIAL = [0x0000, 0x8000, 0x0001, 0x007F, 0x3F80, 0x7F80, 0xFF80, 0x7FC0, 0xFFC1, 0x7F81, 0xFFFF]
_words = st.one_of(st.sampled_from(_SPECIAL), st.integers(0, 0xFFFF))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """Return two files of equal length; long runs of them are equal."""
    old = draw(st.lists(_words, max_size=40)) * draw(st.integers(1, 40))
    new = list(old)
    for place in draw(st.lists(st.integers(0, max(len(old) - 1, 0)), max_size=20)) if old else ():
        new[place] = draw(_words)
    end = draw(st.binary(max_size=1))
    other = draw(st.binary(min_size=len(end), max_size=len(end)))
    return np.array(old, dtype="<u2").tobytes() + end, np.array(new, dtype="<u2").tobytes() + other


@given(pairs(), st.binary(max_size=20))
def test_any_two_files_of_equal_length(files: tuple[bytes, bytes], after: bytes) -> None:
    old, new = files
    delta = make_delta(old, new)
    assert apply_delta(old, delta) == new
    assert apply_delta(new, delta) == new  # a second time changes nothing more
    if after:
        with pytest.raises(BadDelta):
            apply_delta(old, delta + after)


@given(pairs(), st.data())
def test_a_damaged_difference_is_refused_or_makes_a_file_of_the_same_length(
    files: tuple[bytes, bytes], data: st.DataObject
) -> None:
    old, new = files
    delta = bytearray(make_delta(old, new))
    for _ in range(data.draw(st.integers(1, 4))):
        delta[data.draw(st.integers(0, len(delta) - 1))] = data.draw(st.integers(0, 255))
    try:
        made = apply_delta(old, bytes(delta[: data.draw(st.integers(0, len(delta)))]))
    except BadDelta:
        return
    assert len(made) == len(old)


def test_files_of_other_lengths_are_refused() -> None:
    rng = random.Random(0)
    old = rng.randbytes(2000)
    delta = make_delta(old, rng.randbytes(2000))
    for length in (0, 1, 100, 1000, 1998):
        with pytest.raises(BadDelta):
            apply_delta(old[:length], delta)
    with pytest.raises(ValueError, match="2000 and 1999 bytes"):
        make_delta(old, old[:-1])


@pytest.mark.parametrize("byte", [b"\0", b"\xff"])
def test_a_difference_that_inflates_to_gigabytes_is_refused_before_it_does(byte: bytes) -> None:
    bomb = zlib.compress(byte * 2**26, 9)
    sizes = len(bomb).to_bytes(8, "little") * 2
    tracemalloc.start()
    try:
        with pytest.raises(BadDelta):
            apply_delta(bytes(2000), sizes + bomb + bomb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**22


@pytest.mark.parametrize("lost", [[0], [1], [0, 1]])
def test_a_worker_that_lost_versions_goes_back_to_the_anchor(tmp_path: Path, lost: list[int]) -> None:
    publish(tmp_path, range(4))
    with relay(tmp_path) as url:
        versions = VersionStore(tmp_path / "client", download(url))
        for version in (0, 1):
            versions.fetch(version, seconds=20)
        for version in lost:
            shutil.rmtree(tmp_path / "client" / f"{version:06d}")
        place, _ = versions.fetch(3, seconds=20)
    for file in (tmp_path / "weights" / "3").iterdir():
        assert (place / file.name).read_bytes() == file.read_bytes()


def test_a_wrong_base_is_found_out_and_replaced(tmp_path: Path) -> None:
    publish(tmp_path, range(3))
    with relay(tmp_path) as url:
        VersionStore(tmp_path / "client", download(url)).fetch(0, seconds=20)
        (tmp_path / "client" / "000000").rename(tmp_path / "client" / "000001")  # the files fit, and are others
        place, manifest = VersionStore(tmp_path / "client", RelayClient(RelaySelector([url]), RUN, PUBLIC)).fetch(
            2, seconds=20
        )
    assert manifest.base == 1
    for file in (tmp_path / "weights" / "2").iterdir():
        assert (place / file.name).read_bytes() == file.read_bytes()
