"""The files of a journal: segments, each a series of frames, as the docstring of this package describes them."""

from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import msgspec
from blake3 import blake3

from train.asynchronous.groups.events import Event
from train.errors import CheckpointError
from train.fsync import fsync_path

FOLDER = "journal"  # of a run
_SUFFIX = ".frames"
_DIGEST_BYTES = 8
_HEAD_BYTES = 4 + _DIGEST_BYTES
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Event] = msgspec.msgpack.Decoder(Event)


def encode_frame(event: Event) -> bytes:
    data = _encoder.encode(event)
    return len(data).to_bytes(4, "little") + blake3(data).digest(_DIGEST_BYTES) + data


def read_frames(path: Path) -> Iterator[tuple[Event, int]]:
    """Yield each event, and where its frame ends. Ends before the first frame that is torn."""
    end = 0
    with path.open("rb") as file:
        while len(head := file.read(_HEAD_BYTES)) == _HEAD_BYTES:
            length = int.from_bytes(head[:4], "little")
            data = file.read(length)
            if len(data) < length or blake3(data).digest(_DIGEST_BYTES) != head[4:]:
                return
            end += _HEAD_BYTES + length
            try:
                event = _decoder.decode(data)
            except msgspec.MsgspecError as error:
                raise CheckpointError(f"{path}: written by another version of this program ({error})") from error
            yield event, end


def segment_paths(folder: Path) -> dict[int, Path]:
    paths = folder.glob(f"*{_SUFFIX}")
    return dict(sorted((int(path.stem), path) for path in paths if path.stem.isdigit()))


def open_segment(folder: Path, segment: int) -> FileIO:
    path = folder / f"{segment:06d}{_SUFFIX}"
    is_new = not path.exists()
    file = path.open("ab", buffering=0)
    if is_new:
        fsync_path(folder)
    return file
