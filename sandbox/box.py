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

    workers        maximum number of concurrent programs; by default one per processor available to this process
    backend        name of the backend, a file of sandbox/backends, which defines further keywords
    isolation      "full": isolate programs by namespaces or, if the machine does not permit them, by Landlock;
                   otherwise raise BackendUnavailable. "best-effort": if the machine permits neither, log a warning and
                   judge without isolation; submissions can then read expected outputs. See `level`
    seed           seed of hash order and `random`, for repeatable runs. None: random, but the programs of one worker
                   share the hash seed
    max_limits     upper bounds of limits, one per field. Higher limits are clamped, with one logged warning per field.
                   Fields that you omit have the defaults of Limits, which are bounds, too; cpu_seconds=None means the
                   same as wall_seconds, and budget_seconds=None no bound. None: the machine's memory, and 4,096
                   processes
    packages       packages that programs can import besides the standard library and numpy, such as "pandas" or
                   "scipy>=1.11", with their dependencies. They must be installed on the machine that runs programs;
                   it keeps a read-only copy in memory
    packages_from  folder of the packages (`pip install --target`); by default the environment of this process
    modules        modules that programs can import: name -> trusted source, less than 100 KB together. They are
                   executed before any program. Only for the backends local and docker

    A run waits until the memory limits of all concurrent runs together fit into the machine's memory, or into the
    memory limit of this process's cgroup.

    Raises BackendUnavailable if the backend cannot start with these options, and ValueError for invalid parameters.
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
        self._limit_clamp = LimitClamp(max_limits) if max_limits is not None else None
        if requirements := tuple(packages):
            options = {**options, "packages": requirements, "packages_from": str(packages_from)}
        elif packages_from:
            raise ValueError('packages_from needs the names of packages in that folder, such as packages=["pandas"]')
        if modules and backend not in ("local", "docker"):
            raise ValueError(f"modules work only with the backends local and docker, not {backend}")
        if modules:
            options["modules"] = dict(modules)
        self._backend: Backend = backends.start(backend, workers=workers, isolation=isolation, seed=seed, **options)

    @property
    def workers(self) -> int:
        """The maximum number of concurrent programs."""
        return self._backend.workers

    @property
    def layers(self) -> dict[str, str]:
        """The isolation layers: name -> description; "none..." for a missing layer."""
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
        files         files for its working directory: name -> content
        fetch         names of files to return from its working directory; those that exist are in RunResult.files
        cancellation  cancels the run from another thread

        Raises SandboxError if the sandbox, not the program, failed; Cancelled, a SandboxError, after
        cancellation.cancel(); and ValueError for an unknown language or a file name outside the directory.
        """
        data = stdin.encode("utf-8", "surrogatepass") if isinstance(stdin, str) else stdin
        invocation = Invocation(data, tuple(arguments), dict(files or {}), tuple(fetch))
        return self._backend.execute(self._clamp(RunRequest(program, invocation, limits or Limits())), cancellation)

    def judge(
        self,
        program: Program,
        suite: Suite,
        *,
        run_all: bool = False,
        keep_outputs: bool = False,
        cancellation: CancelToken | None = None,
    ) -> Judgement:
        """Judge a program by a suite.

        run_all       whether to continue after a failed case
        keep_outputs  whether to return Judgement.outputs
        cancellation  cancels the request from another thread

        Raises SandboxError if the sandbox failed. The program then has no verdict; do not score it 0.
        Raises Cancelled, a SandboxError, after cancellation.cancel().
        Raises ValueError for an unknown language or checker, and for an invalid suite.
        """
        return self._backend.execute(self._clamp(JudgeRequest(program, suite, run_all, keep_outputs)), cancellation)

    def judge_many(
        self, pairs: Iterable[tuple[Program, Suite]], *, run_all: bool = False
    ) -> Iterator[tuple[int, Judgement]]:
        """Judge (program, suite) pairs; yield the index and judgement of each, in order of completion.

        `pairs` may be infinite, since only a few are read ahead of the workers. Raises as judge does.
        """
        for index, response in self.judge_many_with_errors(pairs, run_all=run_all):
            if isinstance(response, Exception):
                raise response
            yield index, response

    def judge_many_with_errors(
        self, pairs: Iterable[tuple[Program, Suite]], *, run_all: bool = False
    ) -> Iterator[tuple[int, Judgement | Exception]]:
        """Judge pairs as judge_many does, but yield exceptions instead of raising them."""
        requests = (self._clamp(JudgeRequest(program, suite, run_all)) for program, suite in pairs)
        return self._backend.execute_many(requests)

    def submit(self, request: Request[Response], on_response: Callable[[Any], object]) -> Callable[[], None]:
        """Execute a request without waiting; return a function that cancels it.

        on_response   called once, from any thread, with the response or the exception that run or judge would raise; it
                      must return soon
        """
        return self._backend.submit(self._clamp(request), on_response)

    def _clamp(self, request: Request[Response]) -> Request[Response]:
        return request if self._limit_clamp is None else self._limit_clamp.clamp_request(request)

    def close(self) -> None:
        """Kill the runs in progress and end all workers."""
        self._backend.close()
