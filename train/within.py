"""Calls into code that may hang, with a time limit."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from train.sampling.protocol import SamplerError

Made = TypeVar("Made")


def within(seconds: float, call: Callable[[], Made], words: str) -> Made:
    """What the call returns or raises. Raises SamplerError with these words after so many seconds: nobody can end the
    call, so it is left to its thread, which keeps the process from nothing."""
    future: Future[Made] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="within", daemon=True).start()
    try:
        return future.result(seconds)
    except TimeoutError:
        if future.done():
            raise  # the call's own
        raise SamplerError(f"{words} within {seconds:g} s") from None
