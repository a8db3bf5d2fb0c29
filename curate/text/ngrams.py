"""Texts -> words -> hashes of runs of words: many texts at once, and the same numbers on every machine.

A word is a run of letters, digits and underscores of any script, after NFKC and casefold; everything else only
separates. `words` says it in one line. `hashed` does the same for many texts in a few passes over their bytes,
some twenty times as fast, since looking at each word from Python costs more than all that follows.

Hashes have 64 bits. Words of up to eight bytes never share one; of others a pair in 2**64 does by chance.
Nothing here resists somebody who constructs collisions on purpose.
"""

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    Hashes = np.ndarray[tuple[int], np.dtype[np.uint64]]
    Offsets = np.ndarray[tuple[int], np.dtype[np.int64]]

_WORD = re.compile(r"\w+")
_FOREIGN = re.compile(r"[^\x00-\x7f]+")
# ASCII capitals become small, ASCII separators NUL; what is left of other scripts is part of a word.
_BYTES = bytes(
    byte + 32
    if chr(byte) in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    else byte
    if byte >= 128 or chr(byte).isalnum() or byte == ord("_")
    else 0
    for byte in range(256)
)
# Words beyond this many bytes are rare; one of a million digits must not mean a million steps for all.
_LONG = 64
_ODD, _STEP = 0xD6E8FEB86659FD93, 0x9FB21C651E98DF25  # odd, and their bits look random


@dataclass(frozen=True, slots=True)
class Runs:
    """Hashes of the words, or of runs of words, of several texts: text i has hashes[offsets[i] : offsets[i + 1]]."""

    hashes: "Hashes"
    offsets: "Offsets"


def normal(text: str) -> str:
    """The text as it is compared: compatibility forms and case do not count."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def words(text: str) -> list[str]:
    """The words of a text, in order."""
    return _WORD.findall(normal(text))


def located(text: str) -> list[tuple[str, int, int]]:
    """The words of a text with the places where they begin and end in its NFKC form."""
    folded: list[str] = []
    places: list[int] = []  # of each folded letter: some letters fold to several
    for place, letter in enumerate(unicodedata.normalize("NFKC", text)):
        folded += letter.casefold()
        places += [place] * (len(folded) - len(places))
    return [(found[0], places[found.start()], places[found.end() - 1] + 1) for found in _WORD.finditer("".join(folded))]


def hashed(texts: Sequence[str]) -> Runs:
    """A hash for each word of each text. Best with some hundred texts at once: they then stay in the cache."""
    import numpy as np

    encoded = [_encoded(text) for text in texts]
    # Eight bytes are read from the beginning of each word on, so eight must follow the last one.
    data = b"\0".join([*encoded, bytes(8)]).translate(_BYTES)
    letters = np.zeros(len(data) + 1, dtype=bool)
    np.not_equal(np.frombuffer(data, dtype=np.uint8), 0, out=letters[1:])
    edges = np.flatnonzero(letters[1:] != letters[:-1])
    starts, lengths = edges[0::2], edges[1::2] - edges[0::2]
    ends_of_texts = np.cumsum(np.fromiter((len(text) + 1 for text in encoded), np.int64, len(encoded)))
    return Runs(_word_hashes(data, starts, lengths), _offsets(np.searchsorted(starts, ends_of_texts)))


def runs(words: Runs, length: int) -> Runs:
    """Hashes of all runs of `length` words, text by text. A text of fewer words has none."""
    import numpy as np

    count = max(0, len(words.hashes) - length + 1)
    found = words.hashes[:count].copy()
    for place in range(1, length):
        found *= np.uint64(_STEP)
        found += words.hashes[place : place + count]
    _mix(found)
    within = np.ones(count, dtype=bool)
    reaching_over = (words.offsets[1:-1, None] - np.arange(1, length)).ravel()
    within[reaching_over[(reaching_over >= 0) & (reaching_over < count)]] = False
    counts = np.maximum(np.diff(words.offsets) - length + 1, 0)
    return Runs(found[within], _offsets(np.cumsum(counts)))


def _encoded(text: str) -> bytes:
    if text.isascii():
        return text.encode()  # case and separators are left to the table
    text = _FOREIGN.sub(_letters, normal(text))
    return text.encode()


def _letters(foreign: re.Match[str]) -> str:
    return "".join(letter if letter.isalnum() else " " for letter in foreign[0])


def _word_hashes(data: bytes, starts: "Offsets", lengths: "Offsets") -> "Hashes":
    import numpy as np

    eight_from: Hashes = np.ndarray((len(data) - 7,), dtype="<u8", buffer=data, strides=(1,))
    found = eight_from[starts] & _masks()[np.minimum(lengths, 8)]
    _mix(found)
    done = 8
    longer = np.flatnonzero((lengths > done) & (lengths <= _LONG))
    while len(longer):
        more = eight_from[starts[longer] + done] & _masks()[np.minimum(lengths[longer] - done, 8)]
        more ^= found[longer]
        _mix(more)
        found[longer] = more
        done += 8
        longer = longer[lengths[longer] > done]
    for word in np.flatnonzero(lengths > _LONG).tolist():
        text = data[starts[word] : starts[word] + lengths[word]]
        found[word] = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
    return found


def _mix(values: "Hashes") -> None:
    """Spread the bits, in place; no two values become one."""
    import numpy as np

    values *= np.uint64(_ODD)
    values ^= values >> np.uint64(32)


@cache
def _masks() -> "Hashes":
    """For each length up to eight, the bits that so many bytes take."""
    import numpy as np

    return np.array([(1 << 8 * length) - 1 for length in range(9)], dtype=np.uint64)


def _offsets(ends: "Offsets") -> "Offsets":
    import numpy as np

    return np.concatenate((np.zeros(1, dtype=np.int64), ends))
