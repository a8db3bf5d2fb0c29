"""Token ids and log-probabilities as they are sent and stored: 4 bytes each, little-endian."""

import sys
from array import array
from collections.abc import Iterable
from typing import TypeVar

_Number = TypeVar("_Number", int, float)


def pack_tokens(tokens: Iterable[int]) -> bytes:
    """Return token ids as unsigned integers. Raises OverflowError for an id that is negative or needs more bits."""
    return _little_endian(array("I", tokens)).tobytes()


def unpack_tokens(data: bytes) -> "array[int]":
    """Raises ValueError if the bytes are not a multiple of four."""
    tokens = array("I")
    tokens.frombytes(data)
    return _little_endian(tokens)


def pack_logprobs(logprobs: Iterable[float]) -> bytes:
    """Return log-probabilities as floats of single precision, which is what engines compute."""
    return _little_endian(array("f", logprobs)).tobytes()


def unpack_logprobs(data: bytes) -> "array[float]":
    """Raises ValueError if the bytes are not a multiple of four."""
    logprobs = array("f")
    logprobs.frombytes(data)
    return _little_endian(logprobs)


def _little_endian(numbers: "array[_Number]") -> "array[_Number]":
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
