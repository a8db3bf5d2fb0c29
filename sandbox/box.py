"""Sandbox: run untrusted programs and judge them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sandbox import backends
from sandbox.backends import Backend
from sandbox.closeable import Closeable
from sandbox.concurrency.cancellation import CancelToken
from sandbox.judge import Judgement
from sandbox.limit_bounds import LimitClamp
from sandbox.packages import Package
from sandbox.program import Invocation, Limits, Program, RunResult
from sandbox.request import JudgeRequest, Request, Response, RunRequest
from sandbox.suite import Suite


class Sandbox(Closeable):
    """A judge of untrusted programs. Thread-safe; use it as a context manager or call close().

    workers        number of programs that run at once; by default one for each processor that this process may keep
                   busy
    backend        where programs run: the name of a file of sandbox/backends, which defines further keywords
    isolation      "full": isolate programs by namespaces or, if the machine does not permit them, by Landlock;
                   otherwise raise BackendUnavailable. "best-effort": judge without isolation if there can be none, and
                   log a warning: submissions can then read expected outputs. `level` has the actual level
    seed           makes runs repeatable: seeds hash order and `random`. None: random, as with a fresh `python`, except
                   that the programs of one worker share the hash seed
    max_limits     upper bounds for requested limits: higher ones are lowered, with one logged warning for each kind.
                   Every field counts, even one left at its default; cpu_seconds=None means the same as wall_seconds,
                   and budget_seconds=None means no bound. None: no run gets more memory than the machine has, or more
                   than 4,096 processes
    packages       names of packages that programs can import besides the standard library and numpy, such as "pandas"
                   or "scipy>=1.11", with their dependencies. They must be installed where programs run, and are copied,
                   read-only, into the memory of that machine
    packages_from  folder that the packages are installed in (`pip install --target`); by default the environment of
                   this process
    modules        modules of the caller: name -> trusted source, executed once, before the first program; programs that
                   name the module import it in that state. For the backends local and docker, and less than 100 KB

    A run waits until its memory limit and those of the runs in progress together fit into the memory of the machine, or
    of the cgroup that this process is in.

    Raises BackendUnavailable if the machine cannot provide what is requested, and ValueError for invalid parameters.
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        backend: str = "local",
        isolation: str = "full",
        seed: int | None = None,
        max_limits: Limits | None = None,
        packages: Iterable[str] = (),
        packages_from: str | Path = "",
        modules: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"workers must be at least 1, not {workers}")
        if isolation not in ("full", "best-effort"):
            raise ValueError(f'isolation must be "full" or "best-effort", not {isolation!r}')
        self._maxima = LimitClamp(max_limits) if max_limits is not None else None
        if words := tuple(packages):
            options = {**options, "packages": words, "packages_from": str(packages_from)}
        elif packages_from:
            raise ValueError('packages_from needs the names of packages in that folder, such as packages=["pandas"]')
        if modules and backend not in ("local", "docker"):
            raise ValueError(f"modules are for the backends local and docker, not for {backend}")
        if modules:
            options["modules"] = dict(modules)
        self._backend: Backend = backends.start(backend, workers=workers, isolation=isolation, seed=seed, **options)

    @property
    def workers(self) -> int:
        """The number of programs that run at once."""
        return self._backend.workers

    @property
    def layers(self) -> dict[str, str]:
        """The layers that isolate a run: name -> how. A value that begins with "none" means a missing layer."""
        return self._backend.layers

    @property
    def level(self) -> str:
        """The level of isolation: "namespaces", "landlock" or "none"; see docs/concepts/isolation.md."""
        return self.layers["level"]

    @property
    def packages(self) -> tuple[Package, ...]:
        """The requested packages and their dependencies, with versions and digests."""
        return self._backend.packages

    def run(
        self,
        program: Program,
        stdin: str | bytes = "",
        limits: Limits | None = None,
        *,
        arguments: Iterable[str] = (),
        files: Mapping[str, bytes] | None = None,
        fetch: Iterable[str] = (),
        cancellation: CancelToken | None = None,
    ) -> RunResult:
        """Run a program once.

        stdin         standard input; text is encoded as UTF-8
        arguments     the program's command line after its name
        files         files that the program finds in its working directory: name -> content
        fetch         names of files that the program may write there; those that exist are in RunResult.files
        cancellation  cancels the run from another thread

        Raises SandboxError if the sandbox, not the program, failed; Cancelled, a SandboxError, after
        cancellation.cancel(); and ValueError for an unknown language or a name that leads out of the directory.
        """
        data = stdin.encode("utf-8", "surrogatepass") if isinstance(stdin, str) else stdin
        invocation = Invocation(data, tuple(arguments), dict(files or {}), tuple(fetch))
        return self._backend.execute(self._bounded(RunRequest(program, invocation, limits or Limits())), cancellation)

    def judge(
        self,
        program: Program,
        suite: Suite,
        *,
        run_all: bool = False,
        keep_outputs: bool = False,
        cancellation: CancelToken | None = None,
    ) -> Judgement:
        """Judge a program by a suite, stopping at the first case that fails unless run_all.

        With keep_outputs, the judgement has the program's outputs.

        Raises SandboxError if the sandbox failed: then nothing is known about the program, and it must not be scored 0.
        Raises Cancelled, a SandboxError, after cancellation.cancel().
        Raises ValueError for an unknown language or checker, and for a suite that has no cases, or expected values
        that are not JSON.
        """
        return self._backend.execute(self._bounded(JudgeRequest(program, suite, run_all, keep_outputs)), cancellation)

    def judge_many(
        self, pairs: Iterable[tuple[Program, Suite]], *, run_all: bool = False
    ) -> Iterator[tuple[int, Judgement]]:
        """Judge (program, suite) pairs; yield the index and the judgement of each as they complete.

        `pairs` may be infinite: only a few are read ahead of the workers. Raises as judge does.
        """
        for index, response in self.judge_many_with_errors(pairs, run_all=run_all):
            if isinstance(response, Exception):
                raise response
            yield index, response

    def judge_many_with_errors(
        self, pairs: Iterable[tuple[Program, Suite]], *, run_all: bool = False
    ) -> Iterator[tuple[int, Judgement | Exception]]:
        """Do the same as judge_many, but yield the exceptions that judge would raise in place of judgements."""
        requests = (self._bounded(JudgeRequest(program, suite, run_all)) for program, suite in pairs)
        return self._backend.execute_many(requests)

    def submit(self, request: Request[Response], done: Callable[[Any], object]) -> Callable[[], None]:
        """Execute a request without waiting for it; return a function that cancels it.

        done   is called once with the response, or with the exception that run or judge would raise; it may be called
               from any thread, and must return soon
        """
        return self._backend.submit(self._bounded(request), done)

    def _bounded(self, request: Request[Response]) -> Request[Response]:
        return request if self._maxima is None else self._maxima.clamp_request(request)

    def close(self) -> None:
        """End all workers; runs in progress are killed."""
        self._backend.close()
