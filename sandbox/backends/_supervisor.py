"""The supervisor of one node: executes a remote caller's requests on this machine's workers, over any transport.

The only call is `exchange`: it delivers requests, and returns all ready responses, including those to earlier
requests. So the caller needs only one open call, and a busy node batches its responses.
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

_LONG_POLL_SECONDS = 10  # short, since some networks drop idle connections
_BATCH_SECONDS = 0.1  # maximum wait for more responses while the workers are busy
_MAX_RESPONSE_BYTES = 8 << 20  # maximum size of a batch of responses; a single response may be larger

# Modules that do not affect verdicts, and may differ between nodes.
_UNRELATED_MODULES = {"commands", "conformance.py", "image", "options.py", "judge_record.py", "service"}

Content = TypeVar("Content")
Numbered = tuple[int, Content]  # number of a request, chosen by the caller, and the request or its response


@cache
def compute_code_fingerprint() -> str:
    """Return a hash of the code that affects verdicts, to detect nodes with another version."""
    package = Path(sandbox.__file__).parent
    content = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        if path.relative_to(package).parts[0] in _UNRELATED_MODULES:
            continue
        content.update(f"{path.relative_to(package)}\0".encode() + path.read_bytes() + b"\0")
    return content.hexdigest()


def pack(items: Iterable[Numbered[Any]], limit: int) -> tuple[bytes, list[int]]:
    """Encode the first items as one message; return it, and the encoded sizes of these items.

    The message has at most `limit` bytes, but at least one item. An object in several items, such as a suite, is
    encoded once.
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
    """Decode a message of `pack`."""
    unpickler = pickle.Unpickler(file := BytesIO(message))
    items: list[Numbered[Any]] = []
    while file.tell() < len(message):
        items.append(unpickler.load())
    return items


class NodeSupervisor:
    """The workers of one node, and the responses that the caller has not fetched."""

    def __init__(self) -> None:
        self._box: Backend | None = None
        self._cancel: dict[int, Callable[[], None]] = {}  # number of a request in progress -> function that cancels it
        self._cancelled: set[int] = set()
        self._responses: deque[Numbered[Any]] = deque()
        self._changed = threading.Condition()
        self._n_calls = 0

    def start(
        self, fingerprint: str, packages: tuple[Package, ...], options: dict[str, Any], processors: int
    ) -> tuple[int, dict[str, str]]:
        """Start the workers; return their number, and their isolation layers.

        fingerprint   compute_code_fingerprint() of the caller
        packages      the packages in `options`, as installed on the caller's machine
        options       keywords of the local backend; `workers` defaults to one per processor
        processors    number of processors that the node offers

        Raises BackendUnavailable if the workers cannot isolate, or if code or packages differ from the caller's.
        """
        if compute_code_fingerprint() != fingerprint:
            raise BackendUnavailable(
                f"it has another version of curate-code ({Path(sandbox.__file__).parent}) than the caller;"
                " install the same one everywhere"
            )
        workers = options["workers"] or max(1, min(processors, machine.count_cpus()))
        self._box = box = Backend(**{**options, "workers": workers})
        if difference := _describe_difference(box.packages, packages):
            raise BackendUnavailable(f"{difference}; install the same packages on every node")
        return workers, box.layers

    def exchange(self, message: bytes, cancelled_numbers: Sequence[int]) -> bytes:
        """Accept requests, and return the ready responses, possibly none, by long poll.

        message            packed requests
        cancelled_numbers  numbers of requests to cancel; each fails with an unspecified error

        A new call ends the wait of earlier calls.
        """
        box = self._box
        assert box is not None
        with self._changed:
            for number, request in unpack(message):
                self._cancel[number] = box.submit(request, partial(self._take_response, number))
            self._cancelled.update(cancelled_numbers)  # a cancellation may arrive before its request
            for number in self._cancelled & self._cancel.keys():
                self._cancelled.remove(number)
                self._cancel[number]()
            self._n_calls += 1
            call = self._n_calls
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._responses or call != self._n_calls, _LONG_POLL_SECONDS)
            batch = box.workers // 8
            if len(self._cancel) - box.workers >= batch:  # enough queued requests to keep the workers busy
                self._changed.wait_for(lambda: len(self._responses) >= batch or call != self._n_calls, _BATCH_SECONDS)
            responses, sizes = pack(self._responses, _MAX_RESPONSE_BYTES)
            for _ in sizes:
                self._responses.popleft()
        return responses

    def close(self) -> None:
        """Kill the programs and end all workers."""
        if self._box is not None:
            self._box.close()

    def _take_response(self, number: int, response: Any) -> None:
        with self._changed:
            self._cancel.pop(number, None)
            self._responses.append((number, response))
            self._changed.notify_all()


def _describe_difference(node_packages: Iterable[Package], caller_packages: Iterable[Package]) -> str:
    """Describe a difference between this node's packages and the caller's; "" if there is none."""
    node, caller = ({package.name: package for package in packages} for packages in (node_packages, caller_packages))
    for name in sorted(node.keys() | caller.keys()):
        if node.get(name) != caller.get(name):
            return f"it has {node.get(name) or f'no {name}'}, but the caller has {caller.get(name) or f'no {name}'}"
    return ""
