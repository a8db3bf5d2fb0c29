"""A call that may hang has a time limit."""

import threading

import pytest

from train.sampling.protocol import SamplerError
from train.within import within


def test_what_a_call_returns_or_raises_comes_back():
    assert within(60, lambda: 7, "no seven") == 7
    with pytest.raises(TimeoutError, match="its own"):
        within(60, lambda: (_ for _ in ()).throw(TimeoutError("its own")).__next__(), "no seven")


def test_a_call_that_hangs_ends_in_words():
    never = threading.Event()
    try:
        with pytest.raises(SamplerError, match=r"no seven within 0\.05 s"):
            within(0.05, never.wait, "no seven")
    finally:
        never.set()
