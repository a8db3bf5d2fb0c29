"""Sandbox: run untrusted programs and judge them."""

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from types import TracebackType
from typing import Any, Self

from sandbox import backends
from sandbox.cases import Suite
from sandbox.concurrency.cancellation import Cancellation
from sandbox.judge import Judgement
from sandbox.maxima import Maxima
from sandbox.program import Invocation, Limits, Program, RunResult


class Sandbox:
    """A judge of untrusted programs. Thread-safe; use it as a context manager or call close().

    workers    programs that run at once; by default one for each processor this process may use
    backend    where: a file of sandbox/backends; further keywords are its own
    isolation  "full": all namespaces, a read-only root and seccomp, or BackendUnavailable. "best-effort": what
               this machine allows; see `layers`
    seed       an integer makes runs repeatable: hash order and `random` are seeded with it. None: as in a fresh
               `python`, except that the programs of one worker share the hash seed
    most       bounds above the limits that are asked for: higher ones are lowered to these, with one logged warning
               for each kind. Every field of it counts, those left at their defaults too; cpu_seconds=None is as much as
               wall_seconds, budget_seconds=None is no bound. Without `most` it is the machine that bounds: no run gets
               more memory than there is, nor more than 4,096 processes

    A run waits until its memory limit, with those of the runs in progress, is within the memory that the machine (or
    the cgroup that we live in) has.

    Raises BackendUnavailable if the machine cannot give what was asked for.
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        backend: str = "local",
        isolation: str = "full",
        seed: int | None = None,
        most: Limits | None = None,
        **options: Any,
    ) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"workers must be at least 1, not {workers}")
        if isolation not in ("full", "best-effort"):
            raise ValueError(f'isolation must be "full" or "best-effort", not {isolation!r}')
        backends.check(backend)
        module = import_module(f"sandbox.backends.{backend}")
        self._maxima = Maxima(most) if most is not None else None
        self._backend = module.Backend(workers=workers, isolation=isolation, seed=seed, **options)

    @property
    def workers(self) -> int:
        """Programs that run at once."""
        workers: int = self._backend.workers
        return workers

    @property
    def layers(self) -> dict[str, str]:
        """What isolates a run, by name, and how; a value that begins with "none" is a layer that is missing."""
        layers: dict[str, str] = self._backend.layers
        return layers

    def run(
        self,
        program: Program,
        stdin: str | bytes = "",
        limits: Limits | None = None,
        *,
        arguments: Iterable[str] = (),
        files: Mapping[str, bytes] | None = None,
        fetch: Iterable[str] = (),
        cancellation: Cancellation | None = None,
    ) -> RunResult:
        """Run a program once: with these arguments, and files (name -> content) in its working directory. Files that
        it leaves there under the names in `fetch` come back in RunResult.files.

        Raises SandboxError if the sandbox, not the program, failed, Cancelled (one of them) after
        cancellation.cancel(), and ValueError for an unknown language or a name that leads out of the directory.
        """
        data = stdin.encode("utf-8", "surrogatepass") if isinstance(stdin, str) else stdin
        invocation = Invocation(data, tuple(arguments), dict(files or {}), tuple(fetch))
        request = self._bounded(("run", program, invocation, limits or Limits()))
        result: RunResult = self._backend.ask(*request, cancellation=cancellation)
        return result

    def judge(
        self, program: Program, suite: Suite, *, run_all: bool = False, cancellation: Cancellation | None = None
    ) -> Judgement:
        """Judge a program by a suite, stopping at the first case that fails unless run_all.

        Raises SandboxError if the sandbox failed: then nothing is known about the program, which is not a zero.
        Raises Cancelled, a SandboxError, after cancellation.cancel().
        Raises ValueError for an unknown language or checker, and for a suite without cases or with expected values
        that are no JSON.
        """
        request = self._bounded(("judge", program, suite, run_all))
        judgement: Judgement = self._backend.ask(*request, cancellation=cancellation)
        return judgement

    def judge_many(
        self, pairs: Iterable[tuple[Program, Suite]], *, run_all: bool = False
    ) -> Iterator[tuple[int, Judgement]]:
        """Judge (program, suite) pairs; yields (index, judgement) as they complete.

        `pairs` may be endless: it is read only a little ahead of the workers. Raises as judge does.
        """
        for index, answer in self.judge_each(pairs, run_all=run_all):
            if isinstance(answer, Exception):
                raise answer
            yield index, answer

    def judge_each(
        self, pairs: Iterable[tuple[Program, Suite]], *, run_all: bool = False
    ) -> Iterator[tuple[int, Judgement | Exception]]:
        """As judge_many, but a pair that judge would raise for yields that exception, and the others go on."""
        requests = (self._bounded(("judge", program, suite, run_all)) for program, suite in pairs)
        return self._backend.ask_many(requests)  # type: ignore[no-any-return]

    def _bounded(self, request: tuple[Any, ...]) -> tuple[Any, ...]:
        return request if self._maxima is None else self._maxima.bounded(request)

    def close(self) -> None:
        """End all workers; runs in progress are killed."""
        self._backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
