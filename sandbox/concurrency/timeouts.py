"""Calls of code that may hang, in a daemon thread, with a time limit."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")


def call_in_thread(call: Callable[[], Result], name: str) -> "Future[Result]":
    """Call a function that may never return, in a named daemon thread; return a future of its result."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


def call_with_timeout(call: Callable[[], Result], seconds: float, error: Exception) -> Result:
    """Return the result of the call, or raise its exception.

    Raises `error` after `seconds`. The call then continues in its daemon thread, since threads cannot be killed.
    """
    future = call_in_thread(call, "call_with_timeout")
    try:
        return future.result(seconds)
    except TimeoutError:
        if future.done():
            raise  # the call itself raised TimeoutError
        raise error from None
