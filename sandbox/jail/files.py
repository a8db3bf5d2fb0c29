"""Encoding of files to and from a run's directory in one memfd. A table of names and sizes precedes the contents of
files for the run, and follows those of files from it. Only the table is trusted.
"""

import json
import os
import stat
from collections.abc import Iterable, Mapping

_SIZE = 8  # bytes of the table's length
_CHUNK_BYTES = 1 << 20


def pack(files: Mapping[str, bytes]) -> bytes:
    """Encode files for `extract`: the table, then the contents."""
    table = json.dumps([(name, len(content)) for name, content in files.items()]).encode()
    return b"".join([len(table).to_bytes(_SIZE, "little"), table, *files.values()])


def unpack(collected: bytes) -> dict[str, bytes]:
    """Decode the output of `collect`."""
    end = len(collected) - _SIZE
    table = json.loads(collected[end - int.from_bytes(collected[end:], "little") : end])
    files, offset = {}, 0
    for name, size in table:
        files[name] = collected[offset : offset + size]
        offset += size
    return files


def extract(packed: int, owner: int | None) -> None:
    """Write packed files into the working directory. Raises OSError.

    packed  descriptor of the packed files
    owner   uid and gid of the files; None for the caller's
    """
    length = int.from_bytes(os.pread(packed, _SIZE, 0), "little")
    table, offset = _decode_table(os.pread(packed, _SIZE + length, 0))
    for name, size in table:
        folder = ""
        for part in name.split("/")[:-1]:
            folder += f"{part}/"
            if not os.path.isdir(folder):
                os.mkdir(folder, 0o755)
                if owner is not None:
                    os.chown(folder, owner, owner)
        write(name, packed, offset, size, owner)
        offset += size


def write(name: str, source: int, offset: int, size: int, owner: int | None) -> None:
    """Copy `size` bytes of a descriptor to a new file. Raises OSError."""
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
    """Write the named plain files of the working directory to `sink`, truncated to `max_bytes` in total.

    Follows no link and never blocks, since the directory is untrusted after the run.
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
    os.write(sink, encoded + len(encoded).to_bytes(_SIZE, "little"))


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
        raise OSError("no plain file")
    return file


def _decode_table(packed: bytes) -> tuple[list[tuple[str, int]], int]:
    start = _SIZE + int.from_bytes(packed[:_SIZE], "little")
    return json.loads(packed[_SIZE:start]), start
