"""One node of a cluster: judges what it is brought on this machine's workers, for a caller that is elsewhere.

Nothing in here knows what carries the calls. A call of `exchange` brings requests and takes home answers, not
necessarily to the requests that it brought: so one call at a time is open, and the busier the node, the more
answers travel together.
"""

import contextlib
import hashlib
import os
import pickle
import queue
import threading
from collections import deque
from collections.abc import Iterable
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import sandbox
from sandbox.backends.local import Backend
from sandbox.errors import BackendUnavailable

_STAY_SECONDS = 10  # longest stay of a call that has nothing to take home; silent connections are cut somewhere
_LINGER_SECONDS = 0.1  # that a call waits for more answers while the workers have enough to do
_REPLY_BYTES = 8 << 20  # of answers that travel together; one may be larger

_NOT_JUDGING = {"commands", "conformance.py", "image", "record.py", "service"}

Numbered = tuple[int, Any]  # a request or an answer and the number by which its asker knows it


@cache
def fingerprint() -> str:
    """Names the code of this sandbox: equal on two machines if they judge alike."""
    package = Path(sandbox.__file__).parent
    content = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        if path.relative_to(package).parts[0] in _NOT_JUDGING:
            continue
        content.update(f"{path.relative_to(package)}\0".encode() + path.read_bytes() + b"\0")
    return content.hexdigest()


def pack(items: Iterable[Numbered], limit: int) -> tuple[bytes, list[int]]:
    """The first items, as one message of at most `limit` bytes (but never without any), and what each one takes.

    What several share, as the submissions of one problem do its suite, is sent once.
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


def unpack(message: bytes) -> list[Numbered]:
    """Inverse of pack."""
    unpickler = pickle.Unpickler(file := BytesIO(message))
    items: list[Numbered] = []
    while file.tell() < len(message):
        items.append(unpickler.load())
    return items


class Supervisor:
    """The workers of one node, and the queues before and behind them."""

    def __init__(self) -> None:
        self._box: Backend | None = None
        self._requests: queue.SimpleQueue[Numbered] = queue.SimpleQueue()
        self._answers: deque[Numbered] = deque()
        self._changed = threading.Condition()
        self._calls = 0

    def start(
        self, code: str, workers: int | None, isolation: str, seed: int | None, processors: int
    ) -> tuple[int, dict[str, str]]:
        """(number of workers, what isolates their runs). By default as many workers as the node offers processors.

        Raises BackendUnavailable, also where the code of this sandbox is not that of the caller's.
        """
        if fingerprint() != code:
            raise BackendUnavailable(
                f"it has another version of curate-code ({Path(sandbox.__file__).parent}) than the caller;"
                " install the same one everywhere"
            )
        number = workers or max(1, min(processors, len(os.sched_getaffinity(0))))
        self._box = Backend(workers=number, isolation=isolation, seed=seed)
        for _ in range(number):
            threading.Thread(target=self._work, args=(self._box,), daemon=True).start()
        self._enough = max(1, number // 4)
        return number, self._box.layers

    def exchange(self, message: bytes, give_back: int = 0) -> bytes:
        """Take these requests and return the answers that are ready, waiting for one if there is none.

        As many requests as are to be given back and not begun yet get the answer None. Of several calls the last one
        waits; the others return at once. May return no answer.
        """
        for item in unpack(message):
            self._requests.put(item)
        with self._changed:
            with contextlib.suppress(queue.Empty):
                for _ in range(give_back):
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
                answer = box.ask(*request)
            except Exception as error:
                answer = error
            with self._changed:
                self._answers.append((number, answer))
                self._changed.notify_all()
