"""Sandbox: run untrusted programs and judge them."""

from collections.abc import Iterable, Iterator
from importlib import import_module
from types import TracebackType
from typing import Self

from sandbox import checkers, languages
from sandbox.cases import Suite
from sandbox.judge import Judgement
from sandbox.program import Limits, Program, RunResult
from sandbox.streaming import completed


class Sandbox:
    """A judge of untrusted programs. Thread-safe; use it as a context manager or call close().

    workers    programs that run at once; by default one for each processor this process may use
    backend    where: a file of sandbox/backends
    isolation  "full": all namespaces, a read-only root and seccomp, or BackendUnavailable. "best-effort": what
               this machine allows; see `layers`
    seed       an integer makes runs repeatable: hash order and `random` are seeded with it. None: as in a fresh
               `python`, except that the programs of one worker share the hash seed

    Raises BackendUnavailable if the machine cannot give what was asked for.
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        backend: str = "local",
        isolation: str = "full",
        seed: int | None = None,
    ) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"workers must be at least 1, not {workers}")
        if isolation not in ("full", "best-effort"):
            raise ValueError(f'isolation must be "full" or "best-effort", not {isolation!r}')
        module = import_module(f"sandbox.backends.{backend}")
        self._backend = module.Backend(workers=workers, isolation=isolation, seed=seed)

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

    def run(self, program: Program, stdin: str | bytes = "", limits: Limits | None = None) -> RunResult:
        """Run a program once.

        Raises SandboxError if the sandbox, not the program, failed, and ValueError for an unknown language.
        """
        languages.check(program.language)
        data = stdin.encode("utf-8", "surrogatepass") if isinstance(stdin, str) else stdin
        result: RunResult = self._backend.ask("run", program, data, limits or Limits())
        return result

    def judge(self, program: Program, suite: Suite, *, run_all: bool = False) -> Judgement:
        """Judge a program by a suite, stopping at the first case that fails unless run_all.

        Raises SandboxError if the sandbox failed: then nothing is known about the program, which is not a zero.
        Raises ValueError for an unknown language or checker, and for a suite without cases or with expected values
        that are no JSON.
        """
        languages.check(program.language)
        checkers.load(suite.checker)
        judgement: Judgement = self._backend.ask("judge", program, suite, run_all)
        return judgement

    def judge_many(
        self, pairs: Iterable[tuple[Program, Suite]], *, run_all: bool = False
    ) -> Iterator[tuple[int, Judgement]]:
        """Judge (program, suite) pairs; yields (index, judgement) as they complete.

        `pairs` may be endless: it is read only a little ahead of the workers. Raises as judge does.
        """
        judged = completed(lambda pair: self.judge(*pair, run_all=run_all), pairs, threads=self.workers)
        for index, future in judged:
            yield index, future.result()

    def close(self) -> None:
        """End all workers; runs in progress are killed."""
        self._backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
