"""Calls into code that may hang, with a time limit."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")


def call_with_timeout(call: Callable[[], Result], seconds: float, error: Exception) -> Result:
    """Return the result of the call, or raise its exception.

    Raises `error` after `seconds`. Since threads cannot be killed, the call then continues in a daemon thread, which
    does not keep the process alive.
    """
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as raised:
            future.set_exception(raised)

    threading.Thread(target=run, name="call_with_timeout", daemon=True).start()
    try:
        return future.result(seconds)
    except TimeoutError:
        if future.done():
            raise  # from the call itself
        raise error from None
