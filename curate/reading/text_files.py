"""Text files: their compression and their encoding.

The default is UTF-8, with or without a byte order mark. The user must name any other encoding, because detection is
unreliable, and decoding with a wrong one may yield wrong text instead of an error.
"""

import codecs
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO, cast

from curate.errors import CurateError
from curate.reading.values import shorten
from curate.text.printable import format_one_line

COMPRESSION_SUFFIXES = (".gz", ".zst", ".xz")
# UTF-32 comes first, because the mark of UTF-32-LE begins with that of UTF-16-LE.
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_CHUNK_BYTES = 1 << 20
_EXCERPT_BYTES = 24  # before the invalid byte, and from it on


def is_encoding(name: object) -> bool:
    """Return whether this is the name of a text encoding."""
    try:
        return isinstance(name, str) and "".encode(name) is not None
    except (LookupError, ValueError):
        return False


@contextmanager
def open_text(path: Path, encoding: str = "", *, offset: int = 0) -> Iterator[TextIO]:
    """Open a plain or compressed text file, without translation of newlines.

    encoding  name of the encoding; empty for UTF-8
    offset    byte at which to begin; not for compressed files or after a byte order mark

    Raises CurateError, even at a later read, if the file has another encoding or is damaged.
    """
    expected = codecs.lookup(encoding or "utf-8").name
    with _open_decompressed(path) as stream:
        head = stream.peek(4)[:4]
        bom_encoding = next((name for mark, name in _BYTE_ORDER_MARKS.items() if head.startswith(mark)), "")
        if bom_encoding and not expected.startswith(bom_encoding):
            raise _make_encoding_error(
                path, encoding, f"it begins with the byte order mark of {bom_encoding}", bom_encoding
            )
        if not bom_encoding and expected == "utf-8" and 0 in head[:2]:
            likely = "utf-16-le" if head[0] else "utf-16-be"
            raise _make_encoding_error(path, encoding, f"byte 0x00 at offset {head.index(0)}", likely)
        actual = "utf-8-sig" if bom_encoding == "utf-8" else bom_encoding or expected
        if offset:
            stream.seek(offset)
        try:
            with io.TextIOWrapper(stream, encoding=actual, newline="") as text:
                yield text
        except UnicodeDecodeError:
            raise _find_decoding_error(path, encoding, bom_encoding or expected) from None


def read_toml_text(path: Path) -> str:
    """Return the text of a TOML file. Raises CurateError unless it is UTF-8, as TOML requires."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        likely = _guess_encoding(error.object)
        raise CurateError(
            f"{path}: not UTF-8, as TOML must be ({shorten(error)}). Convert it: iconv -f {likely} -t utf-8"
        ) from None


@contextmanager
def _open_decompressed(path: Path) -> Iterator[io.BufferedReader]:
    """Open a file as decompressed bytes. Raises CurateError, even at a later read, if the file is damaged."""
    packing = path.suffix.lower()
    with path.open("rb") as file:
        if packing not in COMPRESSION_SUFFIXES:
            yield file
            return
        try:
            if packing == ".gz":
                with gzip.open(file) as stream:
                    yield cast(io.BufferedReader, stream)
            elif packing == ".xz":
                with lzma.open(file) as stream:
                    yield cast(io.BufferedReader, stream)
            else:
                import pyarrow as pa

                yield io.BufferedReader(pa.CompressedInputStream(file, "zstd"))
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            raise CurateError(f"{path}: corrupt or truncated ({shorten(error)}). Download it again.") from error


def _find_decoding_error(path: Path, encoding: str, codec: str) -> CurateError:
    """Return an error with the first byte that the codec cannot decode, and the likely encoding."""
    decoder = codecs.getincrementaldecoder(codec)()
    offset = 0  # offset of the chunk in the decompressed file
    is_ascii = True
    with _open_decompressed(path) as stream:
        while True:
            chunk = stream.read(_CHUNK_BYTES)
            n_pending = len(decoder.getstate()[0])
            try:
                is_ascii &= decoder.decode(chunk, final=not chunk).isascii()
            except UnicodeDecodeError as error:
                is_ascii &= error.object[: error.start].isascii()
                finding = f"byte 0x{error.object[error.start]:02x} at offset {offset - n_pending + error.start}"
                if codec == "utf-8" and not is_ascii:
                    return CurateError(
                        f"{path}: UTF-8 with an invalid byte ({finding}), perhaps damaged. Download it again or "
                        "correct the text."
                    )
                likely = _guess_encoding(error.object[error.start :])
                around = error.object[max(0, error.start - _EXCERPT_BYTES) : error.start + _EXCERPT_BYTES]
                excerpt = format_one_line(around.decode(likely, "replace"), 2 * _EXCERPT_BYTES)
                return _make_encoding_error(path, encoding, finding, likely, excerpt)
            if not chunk:
                return CurateError(f"{path}: changed while it was read. Run the same command again.")
            offset += len(chunk)


def _guess_encoding(sample: bytes) -> str:
    """Return the likely encoding of a file. sample: bytes of it, from the first invalid one on"""
    if 0 in sample:
        return "utf-16"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        # These bytes are quotation marks and dashes in Windows-1252, but control characters in Latin-1.
        return "cp1252" if any(0x80 <= byte < 0xA0 for byte in sample) else "latin-1"
    return "utf-8"


def _make_encoding_error(path: Path, encoding: str, finding: str, likely: str, excerpt: str = "") -> CurateError:
    decoded = f', which decodes to "{excerpt}"' if excerpt else ""
    return CurateError(
        f"{path}: not {encoding or 'UTF-8'} ({finding}). A text file may be in {likely}{decoded}. Name its encoding: "
        f'LOCATION?encoding={likely}, or encoding = "{likely}" in a TOML file.'
    )
