"""The words of texts, and machine-independent hashes of their n-grams.

A word is a sequence of letters, digits and underscores of any script, after NFKC and casefold. `hash_words` splits many
texts in a few passes over their bytes, about twenty times as fast as `split_words`.

Hashes have 64 bits. Words of up to eight bytes never collide; longer words do with probability 2**-64. An attacker can
construct collisions.
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
# Translation of ASCII: uppercase to lowercase, separators to NUL. All other bytes belong to words.
WORD_BYTES = bytes(
    byte + 32
    if chr(byte) in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    else byte
    if byte >= 128 or chr(byte).isalnum() or byte == ord("_")
    else 0
    for byte in range(256)
)
# Maximum size in bytes of a word that numpy hashes in steps of 8 bytes. Longer words would need too many steps.
LONG_WORD = 64
MIX_MULTIPLIER, NGRAM_MULTIPLIER = 0xD6E8FEB86659FD93, 0x9FB21C651E98DF25  # odd numbers with pseudorandom bits


@dataclass(frozen=True, slots=True)
class NgramHashes:
    """Hashes of the words, or word n-grams, of several texts: text i has hashes[offsets[i] : offsets[i + 1]]."""

    hashes: "Hashes"
    offsets: "Offsets"


def normalize(text: str) -> str:
    """Apply NFKC and casefold to a text, to compare it with others."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def split_words(text: str) -> list[str]:
    """Return the words of a text, in order."""
    return _WORD.findall(normalize(text))


def find_word_spans(text: str) -> list[tuple[str, int, int]]:
    """Return the words of a text, with their offsets in its NFKC form."""
    folded: list[str] = []
    sources: list[int] = []  # one for each folded letter: some letters fold to several
    for index, letter in enumerate(unicodedata.normalize("NFKC", text)):
        folded += letter.casefold()
        sources += [index] * (len(folded) - len(sources))
    return [(word[0], sources[word.start()], sources[word.end() - 1] + 1) for word in _WORD.finditer("".join(folded))]


def hash_words(texts: Sequence[str]) -> NgramHashes:
    """Return a hash for each word of each text. Fastest with some hundred texts, which fit into the CPU cache."""
    import numpy as np

    data, ends_of_texts = join_texts(texts)
    data = data.translate(WORD_BYTES)
    letters = np.zeros(len(data) + 1, dtype=bool)
    np.not_equal(np.frombuffer(data, dtype=np.uint8), 0, out=letters[1:])
    edges = np.flatnonzero(letters[1:] != letters[:-1])
    starts, lengths = edges[0::2], edges[1::2] - edges[0::2]
    return NgramHashes(_hash_word_bytes(data, starts, lengths), _make_offsets(np.searchsorted(starts, ends_of_texts)))


def join_texts(texts: Sequence[str]) -> tuple[bytes, "Offsets"]:
    """Return the bytes of all texts, each followed by a NUL, and the index after each NUL.

    Eight more NULs follow, so eight bytes can be read from the beginning of each word. WORD_BYTES translates the bytes.
    """
    import numpy as np

    encoded = [_encode(text) for text in texts]
    data = b"\0".join([*encoded, bytes(8)])
    return data, np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)) + 1)


def hash_ngrams(words: NgramHashes, length: int) -> NgramHashes:
    """Return the hashes of all word n-grams, text by text. length: n; a text with fewer words has no n-grams"""
    import numpy as np

    count = max(0, len(words.hashes) - length + 1)
    hashes = words.hashes[:count].copy()
    for index in range(1, length):
        hashes *= np.uint64(NGRAM_MULTIPLIER)
        hashes += words.hashes[index : index + count]
    _mix_bits(hashes)
    within = np.ones(count, dtype=bool)
    crossing = (words.offsets[1:-1, None] - np.arange(1, length)).ravel()
    within[crossing[(crossing >= 0) & (crossing < count)]] = False
    counts = np.maximum(np.diff(words.offsets) - length + 1, 0)
    return NgramHashes(hashes[within], _make_offsets(np.cumsum(counts)))


def _encode(text: str) -> bytes:
    if text.isascii():
        return text.encode()  # WORD_BYTES handles case and separators
    return _FOREIGN.sub(_replace_separators, normalize(text)).encode()


def _replace_separators(foreign: re.Match[str]) -> str:
    return "".join(letter if letter.isalnum() else " " for letter in foreign[0])


def _hash_word_bytes(data: bytes, starts: "Offsets", lengths: "Offsets") -> "Hashes":
    import numpy as np

    eight_from: Hashes = np.ndarray((len(data) - 7,), dtype="<u8", buffer=data, strides=(1,))
    hashes = eight_from[starts] & _make_masks()[np.minimum(lengths, 8)]
    _mix_bits(hashes)
    done = 8
    longer = np.flatnonzero((lengths > done) & (lengths <= LONG_WORD))
    while len(longer):
        more = eight_from[starts[longer] + done] & _make_masks()[np.minimum(lengths[longer] - done, 8)]
        more ^= hashes[longer]
        _mix_bits(more)
        hashes[longer] = more
        done += 8
        longer = longer[lengths[longer] > done]
    for word in np.flatnonzero(lengths > LONG_WORD).tolist():
        text = data[starts[word] : starts[word] + lengths[word]]
        hashes[word] = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
    return hashes


def _mix_bits(values: "Hashes") -> None:
    """Mix the bits of each value in place, by a bijection."""
    import numpy as np

    values *= np.uint64(MIX_MULTIPLIER)
    values ^= values >> np.uint64(32)


@cache
def _make_masks() -> "Hashes":
    import numpy as np

    return np.array([(1 << 8 * length) - 1 for length in range(9)], dtype=np.uint64)


def _make_offsets(ends: "Offsets") -> "Offsets":
    import numpy as np

    return np.concatenate((np.zeros(1, dtype=np.int64), ends))
