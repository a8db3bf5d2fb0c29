"""The plain reward of a completion: 1.0 if its program passes every test, else 0.0."""

import os
import threading
from collections.abc import Iterable, Iterator

from rewards.answer import program_in
from sandbox import Judgement, Program, RefereeFailed, Sandbox, SandboxError, Suite

URL = "CURATE_URL"  # address of a `curate serve`, for where many processes score, or where programs may not run here
_lock = threading.Lock()
_shared: dict[int, Sandbox] = {}  # by process: a fork cannot use its parent's


def shared_sandbox() -> Sandbox:
    """The sandbox of this process, made when first asked for: a service's, if CURATE_URL names one, else local.

    Raises SandboxError where there is none.
    """
    with _lock:
        if os.getpid() not in _shared:
            url = os.environ.get(URL)
            _shared[os.getpid()] = Sandbox(backend="http", url=url) if url else Sandbox()
        return _shared[os.getpid()]


def reward(completion: str, suite: Suite, box: Sandbox) -> float:
    """Raises SandboxError if the sandbox failed, RefereeFailed if the suite's own checker did: then nothing is known,
    which is not a zero."""
    source = program_in(completion)
    if source is None:
        return 0.0
    return float(box.judge(Program(source), suite).accepted)


def rewards(pairs: Iterable[tuple[str, Suite]], box: Sandbox) -> list[float | None]:
    """One for each (completion, suite), in order, judged side by side; None where nothing is known, because the sandbox
    failed or the suite's own checker.

    Raises ValueError for a suite that cannot be judged by.
    """
    scores: list[float | None] = []
    asked: list[int] = []

    def judged() -> Iterator[tuple[Program, Suite]]:
        for completion, suite in pairs:
            scores.append(0.0)
            source = program_in(completion)
            if source is not None:
                asked.append(len(scores) - 1)
                yield Program(source), suite

    for index, answer in box.judge_each(judged()):
        if isinstance(answer, Judgement):
            scores[asked[index]] = float(answer.accepted)
        elif isinstance(answer, SandboxError | RefereeFailed):
            scores[asked[index]] = None
        else:
            raise answer
    return scores
