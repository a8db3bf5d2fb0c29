"""The supervisor of one node of a cluster: carries out requests on this machine's workers for a caller elsewhere.

Nothing in here knows how the calls travel. A call of `exchange` delivers requests and returns answers, which need not
be those to the requests that it delivered. So one open call at a time is enough, and the busier the node is, the more
answers travel together.
"""

import contextlib
import hashlib
import pickle
import queue
import threading
from collections import deque
from collections.abc import Iterable
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

import sandbox
from sandbox import machine
from sandbox.backends.local import Backend
from sandbox.errors import BackendUnavailable
from sandbox.packages import Package
from sandbox.request import Request

_STAY_SECONDS = 10  # how long a call waits for an answer; some networks cut connections that are silent for long
_LINGER_SECONDS = 0.1  # how long a call waits for more answers while the workers have enough to do
_REPLY_BYTES = 8 << 20  # size of the answers that travel together; a single one may be larger

# Verdicts do not depend on these parts, so nodes may have other versions of them.
_NOT_JUDGING = {"commands", "conformance.py", "image", "options.py", "judge_record.py", "service"}

Content = TypeVar("Content")
Numbered = tuple[int, Content]  # a request or an answer, with the number by which its sender knows it


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

    The message has at most `limit` bytes, but at least one item. What several items share, such as the suite of
    submissions to the same problem, is sent once.
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
    """The workers of one node, and the queues before and behind them."""

    def __init__(self) -> None:
        self._box: Backend | None = None
        self._requests: queue.SimpleQueue[Numbered[Request[object]]] = queue.SimpleQueue()
        self._answers: deque[Numbered[Any]] = deque()  # None: a request that is given back
        self._changed = threading.Condition()
        self._calls = 0

    def start(
        self,
        code: str,
        workers: int | None,
        isolation: str,
        seed: int | None,
        packages: tuple[str, ...],
        packages_from: str,
        callers_packages: tuple[Package, ...],
        processors: int,
    ) -> tuple[int, dict[str, str]]:
        """Start the workers; return their number, and the layers that isolate their runs.

        code                     the fingerprint of the caller's sandbox
        workers                  number of workers; by default one for each processor that the node offers
        packages, packages_from  see Sandbox
        callers_packages         what the caller has found for them, which this node must have as well
        processors               number of processors that the node offers

        Raises BackendUnavailable if the workers cannot isolate as asked, or if the code of this sandbox or the packages
        differ from the caller's.
        """
        if code_fingerprint() != code:
            raise BackendUnavailable(
                f"it has another version of curate-code ({Path(sandbox.__file__).parent}) than the caller;"
                " install the same one everywhere"
            )
        number = workers or max(1, min(processors, machine.cpu_count()))
        box = Backend(workers=number, isolation=isolation, seed=seed, packages=packages, packages_from=packages_from)
        self._box = box
        if difference := _difference(box.packages, callers_packages):
            raise BackendUnavailable(f"{difference}; install the same packages on every node")
        for _ in range(number):
            threading.Thread(target=self._work, args=(box,), daemon=True).start()
        self._enough = max(1, number // 4)
        return number, box.layers

    def exchange(self, message: bytes, n_recalled: int = 0) -> bytes:
        """Take requests and return the answers that are ready, waiting for one if there is none.

        message     the requests, packed
        n_recalled  number of requests to give back; those that have not begun are answered with None

        If several calls are open, the last one waits and the others return at once. May return no answer.
        """
        for item in unpack(message):
            self._requests.put(item)
        with self._changed:
            with contextlib.suppress(queue.Empty):
                for _ in range(n_recalled):
                    self._answers.append((self._requests.get_nowait()[0], None))
            self._calls += 1
            call = self._calls
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._answers or call != self._calls, _STAY_SECONDS)
            if self._requests.qsize() >= self._enough:  # nobody waits for one answer if so many are under way
                self._changed.wait_for(
                    lambda: len(self._answers) >= self._enough or call != self._calls, _LINGER_SECONDS
                )
            answers, sizes = pack(self._answers, _REPLY_BYTES)
            for _ in sizes:
                self._answers.popleft()
        return answers

    def close(self) -> None:
        """End all workers; what they run is killed."""
        if self._box is not None:
            self._box.close()

    def _work(self, box: Backend) -> None:
        while True:
            number, request = self._requests.get()
            try:
                answer = box.execute(request)
            except Exception as error:
                answer = error
            with self._changed:
                self._answers.append((number, answer))
                self._changed.notify_all()


def _difference(here: Iterable[Package], there: Iterable[Package]) -> str:
    """Say how the packages of this node differ from the caller's; "" if they do not."""
    ours, theirs = ({package.name: package for package in packages} for packages in (here, there))
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            return f"it has {ours.get(name) or f'no {name}'}, but the caller has {theirs.get(name) or f'no {name}'}"
    return ""
