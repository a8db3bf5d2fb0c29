"""A search for texts that contain passages. It measures the contained share of a passage in word 8-grams.

One sorted array has the n-gram hashes of all passages. A bitmap avoids most look-ups of a text's n-grams in it. Because
boilerplate depends on all texts, the index stores matches as pairs of indices until all texts are scanned.

Boilerplate, such as "return the answer modulo 10^9 + 7", counts neither for nor against a passage. An n-gram is
boilerplate if it occurs in 1 % of its set's items (at least 3) or of the texts (at least 50). A passage with fewer than
9 other n-grams must occur word for word, in one piece. A passage of fewer than 5 words must be the whole text.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from curate.text.ngrams import NgramHashes, hash_ngrams, hash_words

if TYPE_CHECKING:
    import numpy as np

    from curate.text.ngrams import Hashes

    Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]
    Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]

NGRAM_WORDS = 8
MIN_NGRAMS = 9
MIN_WORDS = 5
COMMON_ITEMS, COMMON_TEXTS, COMMON_SHARE = 3, 50, 0.01
TEXT_BATCH = 128
_BITS_PER_NGRAM = 32  # size of the bitmap; at most 3 of 100 n-grams of a text match a bit by chance
_LOW_32_BITS = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Passage:
    """A text of an evaluation item. item_index, set_index: the caller's indices of the item and of its set"""

    text: str
    item_index: int
    set_index: int


@dataclass(frozen=True, slots=True)
class PassageOverlap:
    """A text and a passage that overlap.

    text_index     index of the text, in scan order
    passage_index  index of the passage in the list of passages
    rule           `same_text` if the text is the passage; `whole_item` if it contains all n-grams of a passage with few
                   distinctive ones, not necessarily in one piece; `contained` if it contains a share of the n-grams
    share          contained share of the passage's n-grams
    """

    text_index: int
    passage_index: int
    rule: str
    share: float


class PassageIndex:
    """An index of passages. Pass all texts to `scan` before the first call of `find_overlaps`."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        import numpy as np

        self._passages = passages
        self._words = [
            part for batch in _iter_batches(p.text for p in passages) for part in _split_by_text(hash_words(batch))
        ]
        own = [np.unique(_hash_ngrams(words, NGRAM_WORDS)) for words in self._words]
        self._ngrams: Hashes = np.unique(np.concatenate([np.empty(0, dtype=np.uint64), *own]))
        self._numbers: list[Numbers] = [np.searchsorted(self._ngrams, hashes) for hashes in own]
        self._common = self._flag_common_ngrams()
        bits = max(10, (len(self._ngrams) * _BITS_PER_NGRAM).bit_length())
        self._shift = np.uint64(64 - bits)
        self._bitmap = np.zeros(1 << bits, dtype=bool)
        self._bitmap[self._ngrams >> self._shift] = True
        # Indices of passages by the hashes of all words, and of passages shorter than an n-gram by number of words.
        self._same: dict[bytes, list[int]] = defaultdict(list)
        self._short: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for number, words in enumerate(self._words):
            if len(words):
                self._same[words.tobytes()].append(number)
            if MIN_WORDS <= len(words) < NGRAM_WORDS:
                self._short[len(words)][int(_hash_ngrams(words, len(words))[0])].append(number)
        self._n_texts = 0
        self._n_texts_with = np.zeros(len(self._ngrams), dtype=np.int64)
        self._matches: list[Hashes] = []  # text index * 2**32 + n-gram index
        self._exact_overlaps: list[PassageOverlap] = []

    def scan(self, texts: Iterable[str]) -> None:
        """Search these texts for the passages. Text indices continue across calls."""
        for batch in _iter_batches(texts):
            words = hash_words(batch)
            self._match(hash_ngrams(words, NGRAM_WORDS))
            for length, numbers in self._short.items():
                self._match_short(hash_ngrams(words, length), numbers)
            for index, part in enumerate(_split_by_text(words)):
                for number in self._same.get(part.tobytes(), ()):
                    self._exact_overlaps.append(PassageOverlap(self._n_texts + index, number, "same_text", 1.0))
            self._n_texts += len(batch)

    def find_overlaps(self, min_share: float) -> Iterator[PassageOverlap]:
        """Yield the overlaps with shares of at least `min_share`. A pair can have overlaps by several rules."""
        import numpy as np

        yield from self._exact_overlaps
        common = self._n_texts_with >= max(COMMON_TEXTS, COMMON_SHARE * self._n_texts)
        boilerplate = {number: common | flags for number, flags in self._common.items()}
        needed, by_share = [], []
        for numbers, passage in zip(self._numbers, self._passages, strict=True):
            distinctive = numbers[~boilerplate[passage.set_index][numbers]]
            by_share.append(len(distinctive) >= MIN_NGRAMS)
            needed.append(distinctive if by_share[-1] else numbers)
        sizes = np.array(list(map(len, needed)), dtype=np.int64)
        needed_ngrams = np.concatenate([np.empty(0, dtype=np.int64), *needed])
        order = np.argsort(needed_ngrams, kind="stable")
        holders = np.repeat(np.arange(len(needed)), sizes)[order]
        begins = np.searchsorted(needed_ngrams[order], np.arange(len(self._ngrams) + 1))
        for matches in self._matches:
            texts, passages, counts = _count_shared(matches, holders, begins)
            shares = counts / sizes[passages]
            for text, number, share in zip(texts.tolist(), passages.tolist(), shares.tolist(), strict=True):
                if by_share[number] and share >= min_share:
                    yield PassageOverlap(text, number, "contained", share)
                elif not by_share[number] and share == 1:
                    yield PassageOverlap(text, number, "whole_item", 1.0)

    def find_longest_match(self, overlap: PassageOverlap, text: str) -> tuple[int, int] | None:
        """Return the indices of the first and last word of the longest common word sequence in the text.

        Returns None if the rule requires the whole passage in one piece, and the text does not contain it.
        """
        import numpy as np

        (words,), passage = _split_by_text(hash_words([text])), self._words[overlap.passage_index]
        if overlap.rule == "contained":
            ngrams = self._ngrams[self._numbers[overlap.passage_index]]
            return _find_longest_run(np.isin(_hash_ngrams(words, NGRAM_WORDS), ngrams))
        for start in np.flatnonzero(words == passage[0]).tolist():
            if np.array_equal(words[start : start + len(passage)], passage):
                return start, start + len(passage) - 1
        return None

    def _flag_common_ngrams(self) -> dict[int, "Flags"]:
        """Return flags of the n-grams that are boilerplate in the items of a set, by set index."""
        import numpy as np

        by_set: dict[int, dict[int, list[Numbers]]] = defaultdict(lambda: defaultdict(list))
        for numbers, passage in zip(self._numbers, self._passages, strict=True):
            by_set[passage.set_index][passage.item_index].append(numbers)
        common = {}
        for number, by_item in by_set.items():
            n_items = np.zeros(len(self._ngrams), dtype=np.int64)
            for wordings in by_item.values():
                n_items[np.unique(np.concatenate(wordings))] += 1
            common[number] = n_items >= max(COMMON_ITEMS, COMMON_SHARE * len(by_item))
        return common

    def _match(self, text_ngrams: NgramHashes) -> None:
        import numpy as np

        candidates = np.flatnonzero(self._bitmap[text_ngrams.hashes >> self._shift])
        if not len(candidates):
            return
        hashes = text_ngrams.hashes[candidates]
        numbers = np.minimum(np.searchsorted(self._ngrams, hashes), len(self._ngrams) - 1)
        is_match = self._ngrams[numbers] == hashes
        texts = np.searchsorted(text_ngrams.offsets, candidates[is_match], side="right") - 1 + self._n_texts
        matches = np.unique((texts.astype(np.uint64) << np.uint64(32)) | numbers[is_match].astype(np.uint64))
        np.add.at(self._n_texts_with, (matches & np.uint64(_LOW_32_BITS)).astype(np.int64), 1)
        self._matches.append(matches)

    def _match_short(self, text_ngrams: NgramHashes, numbers: dict[int, list[int]]) -> None:
        import numpy as np

        matches = np.flatnonzero(np.isin(text_ngrams.hashes, np.array(list(numbers), dtype=np.uint64)))
        texts = np.searchsorted(text_ngrams.offsets, matches, side="right") - 1 + self._n_texts
        for text, ngram in zip(texts.tolist(), text_ngrams.hashes[matches].tolist(), strict=True):
            self._exact_overlaps += [PassageOverlap(text, number, "whole_item", 1.0) for number in numbers[ngram]]


def _iter_batches(texts: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(texts)
    while batch := list(islice(rest, TEXT_BATCH)):
        yield batch


def _split_by_text(words: NgramHashes) -> list["Hashes"]:
    return [words.hashes[begin:end] for begin, end in pairwise(words.offsets.tolist())]


def _hash_ngrams(words: "Hashes", length: int) -> "Hashes":
    import numpy as np

    return hash_ngrams(NgramHashes(words, np.array([0, len(words)])), length).hashes


def _count_shared(matches: "Hashes", holders: "Numbers", begins: "Numbers") -> tuple["Numbers", "Numbers", "Numbers"]:
    """Return the pairs of texts and passages with common n-grams, and the number of these n-grams for each pair.

    holders: indices of the passages that contain each n-gram, n-gram by n-gram
    begins: index of each n-gram's first passage in `holders`, and the length of `holders`
    """
    import numpy as np

    texts, numbers = matches >> np.uint64(32), (matches & np.uint64(_LOW_32_BITS)).astype(np.int64)
    counts = begins[numbers + 1] - begins[numbers]
    # Concatenate the holders of all matches: begin of each range in `holders`, plus the index within the range.
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    passages = holders[np.repeat(begins[numbers], counts) + within]
    pairs, common = np.unique(
        (np.repeat(texts, counts) << np.uint64(32)) | passages.astype(np.uint64), return_counts=True
    )
    return (pairs >> np.uint64(32)).astype(np.int64), (pairs & np.uint64(_LOW_32_BITS)).astype(np.int64), common


def _find_longest_run(matching: "Flags") -> tuple[int, int]:
    """Return the indices of the first and last word of the longest sequence of matching n-grams; the first of a tie."""
    import numpy as np

    padded = np.concatenate(([False], matching, [False]))
    edges = np.flatnonzero(padded[1:] != padded[:-1])
    starts, stops = edges[0::2], edges[1::2]
    best = int(np.argmax(stops - starts))
    return int(starts[best]), int(stops[best]) - 1 + NGRAM_WORDS - 1
