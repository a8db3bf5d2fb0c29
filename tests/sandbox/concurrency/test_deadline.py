"""A call that may hang has a time limit."""

import threading

import pytest

from sandbox.concurrency.timeouts import call_with_timeout


def test_what_a_call_returns_or_raises_comes_back():
    assert call_with_timeout(lambda: 7, 60, LookupError("no seven")) == 7
    with pytest.raises(TimeoutError, match="its own"):
        call_with_timeout(lambda: (_ for _ in ()).throw(TimeoutError("its own")).__next__(), 60, LookupError())


def test_a_hanging_call_ends_with_an_error():
    never = threading.Event()
    try:
        with pytest.raises(LookupError, match="no seven"):
            call_with_timeout(never.wait, 0.05, LookupError("no seven"))
    finally:
        never.set()
