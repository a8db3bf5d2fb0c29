"""A numba kernel for the plain form (lower case, single spaces), the shingles and the signatures of texts.

The module imports numba, which is optional. Without it, sketches.py and signatures.py compute bit-identical results.
numba compiles the kernel once per machine, into __pycache__ or the user's cache folder; if neither is writable, the
import raises RuntimeError.
"""

from typing import Any

import numba
import numpy as np

from curate.dedup.signatures import PERMUTATIONS, WORDS_PER_SHINGLE
from curate.dedup.sketches import PLAIN_BYTES
from curate.text.ngrams import LONG_WORD, MIX_MULTIPLIER, NGRAM_MULTIPLIER, WORD_BYTES

_PLAIN, _WORD, _SPACE = np.frombuffer(PLAIN_BYTES, np.uint8), np.frombuffer(WORD_BYTES, np.uint8), ord(" ")
_ODD, _STEP, _HALF = np.uint64(MIX_MULTIPLIER), np.uint64(NGRAM_MULTIPLIER), np.uint64(32)
_MAX_INSERTION_SORT = 1024  # values


@numba.njit(cache=True)
def sketch(
    data: Any, ends: Any, permutations: Any, plain: Any, plain_ends: Any, values: Any, offsets: Any, signatures: Any
) -> int:
    """Write plain texts, shingles and signatures into the last five arrays.

    data    bytes of all texts, each followed by a NUL
    ends    index after the NUL of each text
    plain   the texts in lower case with single spaces; valid only for ASCII texts
    values  shingles; set i is values[offsets[i] : offsets[i + 1]]

    Returns the number of values, or -1 if a word is too long.
    """
    words = np.empty(len(values), dtype=np.uint64)
    keys = np.empty(len(values), dtype=np.uint32)
    begin = n_plain = n_values = 0
    for text in range(len(ends)):
        n_plain = _write_plain(data[begin : ends[text] - 1], plain, n_plain)
        plain_ends[text] = n_plain
        n_words = _hash_words(data[begin : ends[text]], words)
        if n_words < 0:
            return -1
        n_keys = _hash_ngrams(words[:n_words], keys)
        first = n_values
        n_values += _write_distinct(keys[:n_keys], values[first:])
        offsets[text + 1] = n_values
        _sign(values[first:n_values], keys, permutations, signatures[text])
        begin = ends[text]
    return n_values


@numba.njit(cache=True)
def _write_plain(text: Any, plain: Any, index: int) -> int:
    begin, previous = index, _SPACE
    for byte in text:
        letter = _PLAIN[byte]
        plain[index] = letter
        index += (letter != _SPACE) | (previous != _SPACE)
        previous = letter
    return index - (index > begin and previous == _SPACE)


@numba.njit(cache=True)
def _hash_words(text: Any, words: Any) -> int:
    index = n_words = 0
    while index < len(text):
        start, word, byte = index, np.uint64(0), _WORD[text[index]]
        while byte != 0:
            shift = np.uint64(0)
            while shift < np.uint64(64) and byte != 0:
                word ^= np.uint64(byte) << shift
                shift += np.uint64(8)
                index += 1
                byte = _WORD[text[index]]
            word *= _ODD
            word ^= word >> _HALF
        if index > start:
            if index - start > LONG_WORD:
                return -1
            words[n_words] = word
            n_words += 1
        index += 1
    return n_words


@numba.njit(cache=True)
def _hash_ngrams(words: Any, keys: Any) -> int:
    n_keys = len(words) - WORDS_PER_SHINGLE + 1
    if n_keys < 1:
        whole = np.uint64(len(words))
        for word in words:
            whole = whole * _STEP + word
        keys[0] = np.uint32((whole * _ODD) >> _HALF)
        return 1
    for number in range(n_keys):
        ngram = words[number]
        for further in range(1, WORDS_PER_SHINGLE):
            ngram = ngram * _STEP + words[number + further]
        ngram *= _ODD
        keys[number] = np.uint32((ngram ^ (ngram >> _HALF)) >> _HALF)
    return n_keys


@numba.njit(cache=True)
def _write_distinct(keys: Any, values: Any) -> int:
    """Write the distinct keys, sorted, into `values`, and return their number.

    Small sets are sorted by first byte, then by insertion, which is fast for nearly sorted values.
    """
    if len(keys) > _MAX_INSERTION_SORT:
        keys.sort()
        values[: len(keys)] = keys
    else:
        ends = np.zeros(257, dtype=np.int64)
        for key in keys:
            ends[np.int64(key >> np.uint32(24)) + 1] += 1
        for smaller in range(256):
            ends[smaller + 1] += ends[smaller]
        for key in keys:
            byte = np.int64(key >> np.uint32(24))
            values[ends[byte]] = key
            ends[byte] += 1
        for number in range(1, len(keys)):
            key, index = values[number], number
            while index > 0 and values[index - 1] > key:
                values[index] = values[index - 1]
                index -= 1
            values[index] = key
    n_values = 1
    for number in range(1, len(keys)):
        if values[number] != values[number - 1]:
            values[n_values] = values[number]
            n_values += 1
    return n_values


@numba.njit(cache=True)
def _sign(values: Any, mixed: Any, permutations: Any, minima: Any) -> None:
    n_values = len(values)
    for number in range(n_values):
        value = values[number]
        first = np.uint32((value ^ (value >> np.uint32(16))) * np.uint32(0x85EBCA6B))
        second = np.uint32((first ^ (first >> np.uint32(13))) * np.uint32(0xC2B2AE35))
        mixed[number] = np.uint32(second ^ (second >> np.uint32(16)))
    multipliers, addends = permutations
    # Four permutations share each read of a value, and their minima stay in registers.
    for index in range(0, PERMUTATIONS, 4):
        first = second = third = fourth = np.uint32(0xFFFFFFFF)
        for number in range(n_values):
            value = mixed[number]
            first = min(first, np.uint32(value * multipliers[index] + addends[index]))
            second = min(second, np.uint32(value * multipliers[index + 1] + addends[index + 1]))
            third = min(third, np.uint32(value * multipliers[index + 2] + addends[index + 2]))
            fourth = min(fourth, np.uint32(value * multipliers[index + 3] + addends[index + 3]))
        minima[index], minima[index + 1], minima[index + 2], minima[index + 3] = first, second, third, fourth
