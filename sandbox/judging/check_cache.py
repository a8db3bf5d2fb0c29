"""A cache of passed checks."""

import hashlib
from collections import OrderedDict

_MAX_CHECKS = 4096


class CheckCache:
    """LRU cache of the inputs of passed checks."""

    def __init__(self) -> None:
        self._digests: OrderedDict[bytes, None] = OrderedDict()

    def contains(self, *inputs: object) -> bool:
        digest = _compute_digest(inputs)
        if digest not in self._digests:
            return False
        self._digests.move_to_end(digest)
        return True

    def add(self, *inputs: object) -> None:
        self._digests[_compute_digest(inputs)] = None
        if len(self._digests) > _MAX_CHECKS:
            self._digests.popitem(last=False)


def _compute_digest(inputs: tuple[object, ...]) -> bytes:
    return hashlib.sha256(repr(inputs).encode("utf-8", "surrogatepass")).digest()
