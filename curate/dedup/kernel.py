"""Shingles and signatures of texts in one pass, compiled by numba: bit for bit those of shingles.py and minhash.py.

Importing this file imports numba, which is optional. numba compiles the kernel once per machine and keeps it beside
this file or in the user's cache folder; if it can write to neither, the import raises RuntimeError.
"""

from typing import Any

import numba
import numpy as np

from curate.dedup.minhash import PERMUTATIONS
from curate.dedup.shingles import WORDS_PER_SHINGLE
from curate.text.ngrams import LONG_WORD, ODD, STEP


@numba.njit(cache=True)
def _sign(values: Any, multipliers: Any, addends: Any, minima: Any) -> None:
    for permutation in range(PERMUTATIONS):
        minima[permutation] = np.uint32(0xFFFFFFFF)
    for value in values:
        first = np.uint32((value ^ (value >> np.uint32(16))) * np.uint32(0x85EBCA6B))
        second = np.uint32((first ^ (first >> np.uint32(13))) * np.uint32(0xC2B2AE35))
        mixed = np.uint32(second ^ (second >> np.uint32(16)))
        for permutation in range(PERMUTATIONS):
            permuted = np.uint32(mixed * multipliers[permutation] + addends[permutation])
            minima[permutation] = min(minima[permutation], permuted)


@numba.njit(cache=True)
def sketch(data: Any, ends: Any, multipliers: Any, addends: Any, values: Any, offsets: Any, signed: Any) -> int:
    """Fill `values`, `offsets` and `signed`. Return the number of values, or -1 if a word is too long.

    data  bytes of all texts, in which NUL separates words; ends  index behind the last byte of each text, a NUL
    """
    odd, step, half = np.uint64(ODD), np.uint64(STEP), np.uint64(32)
    words = np.empty(len(values), dtype=np.uint64)
    keys = np.empty(len(values), dtype=np.uint32)
    place = n_values = 0
    for text in range(len(ends)):
        n_words = 0
        while place < ends[text]:
            if data[place] == 0:
                place += 1
                continue
            start, word = place, np.uint64(0)
            while data[place] != 0:
                shift = np.uint64(0)
                while shift < np.uint64(64) and data[place] != 0:
                    word ^= np.uint64(data[place]) << shift
                    shift += np.uint64(8)
                    place += 1
                word *= odd
                word ^= word >> half
            if place - start > LONG_WORD:
                return -1
            words[n_words] = word
            n_words += 1
        n_keys = n_words - WORDS_PER_SHINGLE + 1
        if n_keys < 1:
            whole = np.uint64(n_words)
            for number in range(n_words):
                whole = whole * step + words[number]
            keys[0] = np.uint32((whole * odd) >> half)
            n_keys = 1
        else:
            for number in range(n_keys):
                run = words[number]
                for further in range(1, WORDS_PER_SHINGLE):
                    run = run * step + words[number + further]
                keys[number] = np.uint32((run * odd ^ ((run * odd) >> half)) >> half)
        # A radix sort of 32-bit keys takes a third of the time of a quicksort.
        source, target = keys[:n_keys], np.empty(n_keys, dtype=np.uint32)
        for shift in (np.uint32(0), np.uint32(8), np.uint32(16), np.uint32(24)):
            starts = np.zeros(257, dtype=np.int64)
            for key in source:
                starts[np.int64((key >> shift) & np.uint32(255)) + 1] += 1
            for digit in range(256):
                starts[digit + 1] += starts[digit]
            for key in source:
                digit = np.int64((key >> shift) & np.uint32(255))
                target[starts[digit]] = key
                starts[digit] += 1
            source, target = target, source
        for number in range(n_keys):
            if number == 0 or source[number] != source[number - 1]:
                values[n_values] = source[number]
                n_values += 1
        offsets[text + 1] = n_values
        _sign(values[offsets[text] : n_values], multipliers, addends, signed[text])
    return n_values
