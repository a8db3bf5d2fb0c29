"""The supervisor of one node: executes requests of a remote caller on this machine's workers.

It does not depend on the transport. A call of `exchange` delivers requests and returns whatever responses are ready,
possibly to earlier requests. So one open call is enough, and a busy node batches its responses.
"""

import hashlib
import pickle
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

import sandbox
from sandbox import machine
from sandbox.backends.local import Backend
from sandbox.errors import BackendUnavailable
from sandbox.packages import Package

_STAY_SECONDS = 10  # long-poll timeout; some networks cut silent connections
_LINGER_SECONDS = 0.1  # wait for more responses while the workers are busy
_REPLY_BYTES = 8 << 20  # size of a batch of responses; a single one may be larger

# Verdicts do not depend on these modules, so their versions may differ between nodes.
_NOT_JUDGING = {"commands", "conformance.py", "image", "options.py", "judge_record.py", "service"}

Content = TypeVar("Content")
Numbered = tuple[int, Content]  # the sender's number of a request, and the request or its response


@cache
def code_fingerprint() -> str:
    """Return a hash of this sandbox's code: it is equal on two machines only if they judge alike."""
    package = Path(sandbox.__file__).parent
    content = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        if path.relative_to(package).parts[0] in _NOT_JUDGING:
            continue
        content.update(f"{path.relative_to(package)}\0".encode() + path.read_bytes() + b"\0")
    return content.hexdigest()


def pack(items: Iterable[Numbered[Any]], limit: int) -> tuple[bytes, list[int]]:
    """Return the first items as one message, and the number of bytes that each of them takes in it.

    The message has at most `limit` bytes, but at least one item. Objects that several items share, such as a suite, are
    sent once.
    """
    message = BytesIO()
    pickler = pickle.Pickler(message, protocol=5)
    sizes: list[int] = []
    end = 0
    for item in items:
        pickler.dump(item)
        size = message.tell() - end
        if sizes and end + size > limit:
            break
        sizes.append(size)
        end += size
    return message.getvalue()[:end], sizes


def unpack(message: bytes) -> list[Numbered[Any]]:
    """Return the items of a message: the inverse of pack."""
    unpickler = pickle.Unpickler(file := BytesIO(message))
    items: list[Numbered[Any]] = []
    while file.tell() < len(message):
        items.append(unpickler.load())
    return items


class NodeSupervisor:
    """The workers of one node, and their responses."""

    def __init__(self) -> None:
        self._box: Backend | None = None
        self._cancel: dict[int, Callable[[], None]] = {}  # what cancels each request in progress
        self._cancelled: set[int] = set()
        self._responses: deque[Numbered[Any]] = deque()
        self._changed = threading.Condition()
        self._calls = 0

    def start(
        self, code: str, callers_packages: tuple[Package, ...], options: dict[str, Any], processors: int
    ) -> tuple[int, dict[str, str]]:
        """Start the workers; return their number, and the layers that isolate their runs.

        code              the fingerprint of the caller's sandbox
        callers_packages  the caller's versions of the packages in `options`, which this node must match
        options           the keywords of the local backend; by default, a worker for each processor of this node
        processors        number of processors that the node offers

        Raises BackendUnavailable if the workers cannot isolate as asked, or if the code of this sandbox or the packages
        differ from the caller's.
        """
        if code_fingerprint() != code:
            raise BackendUnavailable(
                f"it has another version of curate-code ({Path(sandbox.__file__).parent}) than the caller;"
                " install the same one everywhere"
            )
        workers = options["workers"] or max(1, min(processors, machine.cpu_count()))
        self._box = box = Backend(**{**options, "workers": workers})
        if difference := _difference(box.packages, callers_packages):
            raise BackendUnavailable(f"{difference}; install the same packages on every node")
        return workers, box.layers

    def exchange(self, message: bytes, cancelled: Sequence[int]) -> bytes:
        """Accept requests, and return the ready responses; wait for one if there is none.

        message    the requests, packed
        cancelled  numbers of requests to cancel; they fail soon, with any error

        If several calls are open, the last one waits and the others return at once. May return no response.
        """
        box = self._box
        assert box is not None
        with self._changed:
            for number, request in unpack(message):
                self._cancel[number] = box.submit(request, partial(self._take_response, number))
            self._cancelled.update(cancelled)  # the cancellation may arrive before its request
            for number in self._cancelled & self._cancel.keys():
                self._cancelled.remove(number)
                self._cancel[number]()
            self._calls += 1
            call = self._calls
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._responses or call != self._calls, _STAY_SECONDS)
            enough = box.workers // 8
            if len(self._cancel) - box.workers >= enough:  # with so many in progress, batch responses
                self._changed.wait_for(lambda: len(self._responses) >= enough or call != self._calls, _LINGER_SECONDS)
            responses, sizes = pack(self._responses, _REPLY_BYTES)
            for _ in sizes:
                self._responses.popleft()
        return responses

    def close(self) -> None:
        """End all workers; what they run is killed."""
        if self._box is not None:
            self._box.close()

    def _take_response(self, number: int, response: Any) -> None:
        with self._changed:
            self._cancel.pop(number, None)
            self._responses.append((number, response))
            self._changed.notify_all()


def _difference(here: Iterable[Package], there: Iterable[Package]) -> str:
    """Describe how this node's packages differ from the caller's; "" if they do not."""
    ours, theirs = ({package.name: package for package in packages} for packages in (here, there))
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            return f"it has {ours.get(name) or f'no {name}'}, but the caller has {theirs.get(name) or f'no {name}'}"
    return ""
