"""Calls into code that may hang, with a time limit."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")


def call_with_timeout(call: Callable[[], Result], seconds: float, error: Exception) -> Result:
    """What the call returns or raises. Raises `error` after so many seconds: nobody can end the call, so it is left to
    its thread, which is a daemon and so does not keep the process alive."""
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
            raise  # the call's own
        raise error from None
