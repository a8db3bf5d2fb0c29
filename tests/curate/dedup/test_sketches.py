import hashlib
import subprocess
import sys
import unicodedata

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from source_rows import words

from curate.dedup.minhash import TEXT_BATCH, signatures
from curate.dedup.shingles import shingles
from curate.dedup.sketches import Sketches, load_kernel, sketch
from curate.problem import Problem
from sandbox import Suite


def problem(number, statement, entry_point=None):
    suite = Suite((), entry_point=entry_point)
    return Problem(f"taco/{number}", "taco", statement, suite, solutions=None, licence="")


@given(st.text(st.characters(max_codepoint=0x24F, exclude_categories=["Cs"]), max_size=30))
@example("\t A\x0b\x1c b\0 C  \n\r")
def test_a_digest_is_that_of_the_text_without_case_and_spacing(text):
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    with Sketches([problem(0, text), problem(1, text, "solve")], []) as sketches:
        assert sketches.digests[0] == hashlib.sha256(f"\n{plain}".encode()).digest()
        assert sketches.digests[1] == hashlib.sha256(f"solve\n{plain}".encode()).digest()


def test_many_problems_are_sketched_as_each_would_be_alone():
    texts = [words(seed, 1 + seed % 40) for seed in range(2 * TEXT_BATCH + 3)]
    with Sketches((problem(n, text) for n, text in enumerate(texts)), []) as sketches:
        assert len(sketches) == len(texts)
        for row, text in enumerate(texts):
            alone = shingles([text])
            assert np.array_equal(sketches.shingles(row), alone.values)
            assert np.array_equal(sketches.signatures[row], signatures(alone.values, alone.offsets)[0])


def test_files_in_the_given_folder_leave_nothing_behind(tmp_path):
    with Sketches([problem(0, words(0))], [], folder=tmp_path) as sketches:
        assert len(sketches.shingles(0)) == 56
        assert list(tmp_path.iterdir()) == []
    with Sketches([], [], folder=tmp_path) as sketches:
        assert len(sketches) == 0
        assert sketches.signatures.shape == (0, 128)


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
        "print(len(sketch(['one text'], load_kernel())[1]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


def values_of(sketches):
    sets, signatures = sketches
    return sets.values, sets.offsets, signatures
