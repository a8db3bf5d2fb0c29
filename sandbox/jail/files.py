"""Codec for the files of a run's directory, which the judge and the child exchange in one memfd.

The memfd holds a table of names and sizes, and the contents. Files for the run have the table first, files from the run
have it last. The contents of files from the run are untrusted.
"""

import json
import os
import stat
from collections.abc import Iterable, Mapping

_LENGTH_BYTES = 8  # size of the table's length prefix or suffix
_CHUNK_BYTES = 1 << 20


def pack(files: Mapping[str, bytes]) -> bytes:
    """Encode files for the run, in the format of `extract`."""
    table = json.dumps([(name, len(content)) for name, content in files.items()]).encode()
    return b"".join([len(table).to_bytes(_LENGTH_BYTES, "little"), table, *files.values()])


def unpack(data: bytes) -> dict[str, bytes]:
    """Decode files from the run, as encoded by `collect`."""
    end = len(data) - _LENGTH_BYTES
    table = json.loads(data[end - int.from_bytes(data[end:], "little") : end])
    files, offset = {}, 0
    for name, size in table:
        files[name] = data[offset : offset + size]
        offset += size
    return files


def extract(packed: int, owner: int | None) -> None:
    """Write files for the run into the working directory. Raises OSError.

    packed  descriptor of the output of `pack`
    owner   uid and gid of the files; None for the caller's
    """
    length = int.from_bytes(os.pread(packed, _LENGTH_BYTES, 0), "little")
    table, offset = _decode_table(os.pread(packed, _LENGTH_BYTES + length, 0))
    for name, size in table:
        folder = ""
        for part in name.split("/")[:-1]:
            folder += f"{part}/"
            if not os.path.isdir(folder):
                os.mkdir(folder, 0o755)
                if owner is not None:
                    os.chown(folder, owner, owner)
        write_file(name, packed, offset, size, owner)
        offset += size


def write_file(name: str, source: int, offset: int, size: int, owner: int | None) -> None:
    """Copy `size` bytes of the descriptor `source` to a new file. Raises OSError."""
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        end = offset + size
        while offset < end:
            offset += os.sendfile(file, source, offset, end - offset)
        if owner is not None:
            os.fchown(file, owner, owner)
    finally:
        os.close(file)


def collect(names: Iterable[str], max_bytes: int, sink: int) -> None:
    """Encode the named regular files of the working directory, up to `max_bytes`, to the descriptor `sink`.

    Skips links and pipes, since the directory is untrusted after the run.
    """
    table: list[tuple[str, int]] = []
    remaining_bytes = max_bytes
    for name in names:
        try:
            file = _open_beneath(name)
        except OSError:
            continue
        size = 0
        while size < remaining_bytes and (
            copied := os.sendfile(sink, file, size, min(remaining_bytes - size, _CHUNK_BYTES))
        ):
            size += copied
        os.close(file)
        table.append((name, size))
        remaining_bytes -= size
    encoded = json.dumps(table).encode()
    os.write(sink, encoded + len(encoded).to_bytes(_LENGTH_BYTES, "little"))


def _open_beneath(name: str) -> int:
    *folders, last = name.split("/")
    directory = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        for folder in folders:
            inner = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
            os.close(directory)
            directory = inner
        file = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
    finally:
        os.close(directory)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError("not a regular file")
    return file


def _decode_table(packed: bytes) -> tuple[list[tuple[str, int]], int]:
    start = _LENGTH_BYTES + int.from_bytes(packed[:_LENGTH_BYTES], "little")
    return json.loads(packed[_LENGTH_BYTES:start]), start
