import hashlib
import subprocess
import sys
import unicodedata

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from source_rows import words

from curate.dedup.signatures import TEXT_BATCH, compute_shingles, compute_signatures
from curate.dedup.sketches import Sketches, create_temporary_sketches, load_kernel, sketch, write_sketches
from curate.problem import Problem
from sandbox import Suite


def problem(number, statement, entry_point=None):
    suite = Suite((), entry_point=entry_point)
    return Problem(f"taco/{number}", "taco", statement, suite, solutions=None, licence="")


@given(st.text(st.characters(max_codepoint=0x24F, exclude_categories=["Cs"]), max_size=30))
@example("\t A\x0b\x1c b\0 C  \n\r")
def test_a_digest_is_that_of_the_text_without_case_and_spacing(text):
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    with create_temporary_sketches([problem(0, text), problem(1, text, "solve")]) as sketches:
        assert sketches.get_digest(0) == hashlib.sha256(f"\n{plain}".encode()).digest()
        assert sketches.get_digest(1) == hashlib.sha256(f"solve\n{plain}".encode()).digest()


def test_many_problems_are_sketched_as_each_would_be_alone():
    texts = [words(seed % (TEXT_BATCH + 3), 1 + seed % (TEXT_BATCH + 3) % 40) for seed in range(2 * TEXT_BATCH + 6)]
    with create_temporary_sketches(problem(n, text) for n, text in enumerate(texts)) as sketches:
        assert sketches.number.tolist() == list(range(len(texts)))
        assert len(sketches) == len(texts)
        for row, text in enumerate(texts):
            alone = compute_shingles([text])
            assert np.array_equal(sketches.load_shingles(row), alone.values)
            assert np.array_equal(sketches.load_signatures([row]), compute_signatures(alone.values, alone.offsets))


def test_rows_of_several_folders_are_compared_if_they_are_asked_for(tmp_path):
    folders = [tmp_path / name for name in ("one", "two", "empty")]
    texts = {0: [words(0), words(1), words(2), words(3)], 1: [words(4), words(2), words(0)], 2: []}
    for index, folder in enumerate(folders):
        folder.mkdir()
        # A shard has other rows, too, which are no problems.
        write_sketches(((10 * n, problem(n, text)) for n, text in enumerate(texts[index])), folder)
    everything = [(folder, None) for folder in folders]
    with Sketches(everything) as sketches:
        assert list(zip(sketches.shard.tolist(), sketches.number.tolist(), strict=True)) == [
            (0, 0),
            (0, 20),
            (1, 10),
            (1, 20),
        ]
        assert sketches.rows.tolist() == [0, 2, 5, 6]
        assert np.array_equal(sketches.load_shingles(0), sketches.load_shingles(3))
    with Sketches([(folders[0], np.array([10, 20])), *everything[1:]]) as sketches:
        assert list(zip(sketches.shard.tolist(), sketches.number.tolist(), strict=True)) == [(0, 20), (1, 10)]


def test_temporary_files_are_in_the_given_folder_and_leave_nothing_behind(tmp_path):
    with create_temporary_sketches([problem(0, words(0)), problem(1, words(0))], folder=tmp_path) as sketches:
        assert len(sketches.load_shingles(0)) == 56
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []
    with create_temporary_sketches([], folder=tmp_path) as sketches:
        assert len(sketches) == 0


def test_the_compiled_kernel_computes_the_same_bits_as_numpy():
    pytest.importorskip("numba", reason="numba is not installed; type: make .venv/train")
    kernel = load_kernel()
    assert kernel is not None
    texts = [words(seed, n=seed * 3) for seed in range(40)]
    texts += [
        "",
        "?!",
        "x",
        "a b c d e",
        "a b c d e f a b c d e f",
        "Ünïcode ﬁve wörds of テスト, ١٢٣",
        "a\0b c",
        "w" * 64,
        " \t Two  words\n",
        words(0, n=1500),
        " ".join("ab" * 1500),
    ]
    compiled, by_numpy = sketch(texts, kernel), sketch(texts, None)
    for left, right in zip(values_of(compiled), values_of(by_numpy), strict=True):
        assert left.dtype == right.dtype
        assert np.array_equal(left, right)


def test_the_kernel_leaves_words_of_more_than_64_bytes_to_numpy():
    pytest.importorskip("numba", reason="numba is not installed; type: make .venv/train")
    texts = ["one two " + "w" * 65, "three"]
    for left, right in zip(values_of(sketch(texts, load_kernel())), values_of(sketch(texts, None)), strict=True):
        assert np.array_equal(left, right)


def test_without_numba_numpy_computes_everything():
    code = (
        "import sys\n"
        "sys.modules['numba'] = None\n"
        "from curate.dedup.sketches import load_kernel, sketch\n"
        "assert load_kernel() is None\n"
        "print(len(sketch(['one text'], load_kernel())[2]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


def values_of(sketches):
    plain, sets, signatures = sketches
    return np.array(plain, dtype=object), sets.values, sets.offsets, signatures
