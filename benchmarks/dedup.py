"""Near-duplicate detection, from text to clusters: curate compared with datasketch, rensa and gaoya.

    pip install rensa gaoya
    python -m benchmarks.dedup [--documents N ...] [--only ENGINE ...]     # default: 5000 and 100000, all engines

Each engine runs in its own process on the same file, and takes texts in order: a row that matches a kept one is removed
as its duplicate. The corpora are synthetic statements of words with Zipf frequencies, two fifths of them mutations of
others. Rates are per second of CPU time, of all threads together. The true pairs have a Jaccard similarity of at least
0.7. In a corpus of more than 5,000 documents, only pairs of a mutation and its original are compared.

    recall     share of the true pairs of which at least one row is removed
    precision  share of the removed rows with Jaccard similarity >= 0.7 to the row kept instead

Of more than 50,000 pairs or removed rows, a random sample of 50,000 is compared.
"""

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from itertools import accumulate, combinations, islice
from pathlib import Path
from typing import Any

from benchmarks.record import describe_machine, load_results, save_results

THRESHOLD = 0.7
ALL_PAIRS_UP_TO = 5_000
MAX_INSPECTED = 50_000
LINE_END = "\x1e"  # replaces the line ends of a document, which is a line of the corpus file

Clusters = dict[int, int]  # kept row by removed row


def write_corpus(path: Path, documents: int, *, seed: int = 0) -> dict[int, int]:
    """Write the texts, and return the row of the original of each mutation, by row."""
    rng = random.Random(seed)
    vocabulary = ["".join(rng.choices("etaoinshrdlucmfwyp", k=rng.randint(1, 10))) for _ in range(30_000)]
    weights = list(accumulate(1 / (rank + 3) for rank in range(len(vocabulary))))
    common = [" ".join(rng.choices(vocabulary, cum_weights=weights, k=rng.randint(8, 25))) for _ in range(60)]

    def make_statement() -> str:
        words = rng.choices(vocabulary, cum_weights=weights, k=rng.randint(120, 400))
        for index in range(12, len(words), 17):
            words[index] += rng.choice((".", ",", ".\n", ":", ".\n\n"))
        for _ in range(rng.randint(0, 3)):  # common sentences, such as constraints
            words.insert(rng.randrange(len(words)), rng.choice(common))
        return " ".join(words)

    def mutate(text: str) -> str:
        words = text.split(" ")
        kind = rng.randrange(5)
        if kind == 0:  # words replaced
            for index in rng.sample(range(len(words)), max(1, int(len(words) * rng.uniform(0.005, 0.06)))):
                words[index] = rng.choice(vocabulary)
        elif kind == 1:  # layout changed
            words = [f"${word}$" if rng.random() < 0.05 else word.capitalize() for word in words]
        elif kind == 2:  # truncated
            words = words[: int(len(words) * rng.uniform(0.6, 0.99))]
        elif kind == 3:  # words added
            words += rng.choices(vocabulary, cum_weights=weights, k=rng.randint(5, 80))
        else:  # a name changed throughout
            name = words[rng.randrange(len(words))]
            words = ["renamed" if word == name else word for word in words]
        return " ".join(words)

    originals: dict[int, int] = {}
    recent: list[tuple[int, str]] = []
    with path.open("w") as file:
        for row in range(documents):
            if recent and rng.random() < 0.42:
                originals[row], text = recent[rng.randrange(len(recent))]
                text = mutate(text)
            else:
                text = make_statement()
                # Sample the rows to mutate from the whole file without holding all of it in memory.
                if len(recent) < 2_000:
                    recent.append((row, text))
                else:
                    recent[rng.randrange(len(recent))] = row, text
            file.write(text.replace("\n", LINE_END) + "\n")
    return originals


def read_texts(path: Path) -> Iterator[str]:
    with path.open() as file:
        for line in file:
            yield line[:-1].replace(LINE_END, "\n")


def remove_with_datasketch(path: Path) -> Clusters:
    """Use the fastest interface of datasketch: signatures in bulk, and xxhash instead of SHA-1."""
    import xxhash
    from datasketch import MinHash, MinHashLSH

    sets = ([shingle.encode() for shingle in make_shingles(text)] for text in read_texts(path))
    index = MinHashLSH(threshold=THRESHOLD, num_perm=128)
    removed = {}
    for row, signature in enumerate(MinHash.generator(sets, num_perm=128, hashfunc=xxhash.xxh32_intdigest)):
        if found := index.query(signature):
            removed[row] = min(found)
        else:
            index.insert(row, signature)
    return removed


def remove_with_rensa(path: Path) -> Clusters:
    """Use rensa's R-MinHash in bulk and its LSH. Filter candidates by estimated similarity, as in its README."""
    from rensa import RMinHash, RMinHashLSH

    index = RMinHashLSH(threshold=THRESHOLD, num_perm=128, num_bands=16)
    signatures: dict[int, Any] = {}
    removed = {}
    rows = enumerate(read_texts(path))
    while batch := list(islice(rows, 500)):
        hashes = RMinHash.from_token_sets([list(make_shingles(text)) for _, text in batch], 128, 42)
        for (row, _), signature in zip(batch, hashes, strict=True):
            similar = [other for other in index.query(signature) if signature.jaccard(signatures[other]) >= THRESHOLD]
            if similar:
                removed[row] = min(similar)
            else:
                index.insert(row, signature)
                signatures[row] = signature
    return removed


def remove_with_gaoya(path: Path) -> Clusters:
    """Use gaoya's index, which splits and hashes texts, and filters candidates by estimated similarity."""
    from gaoya.minhash import MinHashStringIndex

    index = MinHashStringIndex(32, THRESHOLD, 25, 5, None, "word", True, (5, 5), "smallvec")
    removed = {}
    for row, text in enumerate(read_texts(path)):
        if found := index.query(text):
            removed[row] = min(found)
        else:
            index.insert_document(row, text)
    return removed


def remove_with_curate(path: Path) -> Clusters:
    """Call the two functions that `curate build-dataset` calls."""
    import numpy as np

    from curate.dedup.duplicates import find_duplicates
    from curate.dedup.sketches import create_temporary_sketches, load_kernel
    from curate.problem import Problem
    from sandbox import Suite

    load_kernel()  # before the measurement, like imports; a build does it after MIN_KERNEL_TEXTS rows
    suite = Suite(())

    def make_problem(text: str) -> Problem:
        return Problem("", "benchmark", text, suite, solutions=None, licence="")

    same = make_problem("")  # the documents differ only in their texts
    with create_temporary_sketches(map(make_problem, read_texts(path)), folder=path.parent) as sketches:
        order = np.arange(len(sketches))
        found = list(find_duplicates(sketches, order, threshold=THRESHOLD, load=lambda row: same))
        numbers = sketches.number.tolist()
    return {numbers[duplicate.row]: numbers[duplicate.kept] for duplicate in found}


ENGINES = {
    "bulk": remove_with_datasketch,
    "rensa": remove_with_rensa,
    "gaoya": remove_with_gaoya,
    "ours": remove_with_curate,
}
_PACKAGES = ("rensa", "gaoya")  # not dependencies of the project


def make_shingles(text: str) -> set[str]:
    words = re.findall(r"\w+", text.lower())
    return {" ".join(words[start : start + 5]) for start in range(max(1, len(words) - 4))}


class Corpus:
    """The texts of a corpus file, by row."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as file:
            self._starts = [0, *accumulate(map(len, file))]

    def read_shingles(self, row: int) -> set[str]:
        with self._path.open("rb") as file:
            file.seek(self._starts[row])
            return make_shingles(file.readline().decode()[:-1].replace(LINE_END, "\n"))

    def is_similar(self, one: int, other: int) -> bool:
        first, second = self.read_shingles(one), self.read_shingles(other)
        return len(first & second) / len(first | second) >= THRESHOLD


def sample_pairs(pairs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return all pairs, or a random sample if there are too many."""
    listed = list(pairs)
    return listed if len(listed) <= MAX_INSPECTED else random.Random(0).sample(listed, MAX_INSPECTED)


def find_true_pairs(corpus: Corpus, documents: int, originals: dict[int, int]) -> list[tuple[int, int]]:
    """Return the true pairs, or a sample of them in a large corpus."""
    if documents > ALL_PAIRS_UP_TO:
        return [pair for pair in sample_pairs(originals.items()) if corpus.is_similar(*pair)]
    sets = [corpus.read_shingles(row) for row in range(documents)]
    holders: dict[str, list[int]] = {}
    for row, found in enumerate(sets):
        for shingle in found:
            holders.setdefault(shingle, []).append(row)
    common = Counter(pair for rows in holders.values() for pair in combinations(rows, 2))
    return [
        (one, other) for (one, other), n in common.items() if n / (len(sets[one]) + len(sets[other]) - n) >= THRESHOLD
    ]


def measure(engine: str, path: Path) -> None:
    """Run an engine in this process. Print its CPU time, peak memory and removed rows as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        few = Path(folder) / "corpus.txt"
        write_corpus(few, 20)
        ENGINES[engine](few)  # imports, outside the measurement
    started = time.process_time()
    removed = ENGINES[engine](path)
    cpu = time.process_time() - started
    peak = int(re.findall(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())[0]) / 1024
    print(json.dumps({"cpu_seconds": cpu, "peak_mb": peak, "removed": list(removed.items())}))


def compare(documents: int, engines: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "corpus.txt"
        originals = write_corpus(path, documents)
        corpus = Corpus(path)
        pairs = find_true_pairs(corpus, documents, originals)
        for engine in engines:
            if engine in _PACKAGES and find_spec(engine) is None:
                print(f"{engine} is missing and skipped; type: pip install {engine}", file=sys.stderr)
                continue
            command = [sys.executable, "-m", "benchmarks.dedup", "--measure", engine, str(path)]
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            removed: Clusters = dict(found["removed"])
            inspected = sample_pairs(removed.items())
            result = {
                "documents_per_cpu_second": documents / found["cpu_seconds"],
                "peak_mb": found["peak_mb"],
                "precision": sum(corpus.is_similar(*pair) for pair in inspected) / len(inspected),
                "recall": sum(one in removed or other in removed for one, other in pairs) / len(pairs),
            }
            yield engine, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, nargs="+", default=[5_000, 100_000])
    parser.add_argument("--only", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--measure", nargs=2, metavar=("ENGINE", "CORPUS"), help="used by the processes of the engines")
    chosen = parser.parse_args()
    if chosen.measure:
        measure(chosen.measure[0], Path(chosen.measure[1]))
        return
    results = load_results("dedup")
    for documents in chosen.documents:
        for engine, result in compare(documents, chosen.only):
            print(documents, engine, result)
            results.setdefault(str(documents), {})[engine] = {**result, "machine": describe_machine()}
            save_results("dedup", results)  # after each engine, since a million documents take the slowest one hours


if __name__ == "__main__":
    main()
