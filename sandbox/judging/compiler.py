"""Compilation of programs in the sandbox, with a cache."""

import os
from collections.abc import Callable
from dataclasses import replace

from sandbox import languages
from sandbox.errors import BackendUnavailable, ExecutionLost, KilledExternally
from sandbox.jail.child import COMPILER_BROKEN, COMPILER_KILLED
from sandbox.jail.compile_cache import CompileCache, CompiledProgram, SharedStore, make_memfd
from sandbox.jail.run_spec import RunSpec, make_run_spec
from sandbox.program import Limits, Outcome, Program, RunResult

_LIMITS = Limits(wall_seconds=10, memory_mb=1024, output_kb=64 * 1024, disk_mb=256)
_TRIVIAL_LIMITS = replace(_LIMITS, wall_seconds=120)
_COMPILE_TIME_FACTOR = 10  # compile time limit on a slow machine, as a multiple of a trivial program's compile time
_MAX_MESSAGE_BYTES = 1 << 16  # of the compiler's stderr
_MAX_SOURCE_CHARS = 16 << 20

# A function that executes a run spec with an input. Raises ExecutionLost, or its subclass KilledExternally.
ExecuteRun = Callable[[RunSpec, CompiledProgram, bytes], RunResult]


class Compiler:
    """Compiler of programs, with a cache. shared: store of artifacts for all workers of a Sandbox; None for none."""

    def __init__(self, execute: ExecuteRun, seed: int | None, shared: SharedStore | None) -> None:
        self._execute = execute
        self._seed = seed
        self._cache = CompileCache(shared)
        self._tested_languages: set[str] = set()  # languages whose self-test has passed

    def compile(self, program: Program) -> CompiledProgram | RunResult:
        """Return the compiled program, or the result of the failed compilation.

        Caches programs, and failures that the machine cannot have caused. Raises ExecutionLost if the sandbox fails
        repeatedly, and BackendUnavailable if there is no working compiler.
        """
        if len(program.source) > _MAX_SOURCE_CHARS:
            error = f"the program has {len(program.source):,} characters, expected at most {_MAX_SOURCE_CHARS:,}"
            return RunResult(Outcome.NOT_COMPILED, 1, b"", error.encode(), 0, 0, 0)
        cached = self._cache.find(program)
        if cached is not None:
            return cached
        self._check_language(program.language)
        result = self._run_compiler(program, _LIMITS)
        if result.outcome is Outcome.TIMED_OUT:
            trivial = Program(languages.load(program.language).SELF_TEST, program.language)
            wall_seconds = _COMPILE_TIME_FACTOR * self._run_compiler(trivial, _TRIVIAL_LIMITS).wall_seconds
            if wall_seconds > _LIMITS.wall_seconds:  # the machine is slow
                result = self._run_compiler(program, replace(_LIMITS, wall_seconds=wall_seconds))
        if result.outcome is Outcome.EXITED and result.exit_code == 0 and result.returned:
            return self._cache.add(program, result, result.returned)
        message = result.stderr[:_MAX_MESSAGE_BYTES] or f"the compiler ended: {result.outcome.value}".encode()
        failed = replace(result, outcome=Outcome.NOT_COMPILED, stdout=b"", stderr=message, returned=None)
        if result.outcome is Outcome.EXITED:  # otherwise the machine may be the cause
            self._cache.add_failure(program, failed)
        return failed

    def _run_compiler(self, program: Program, limits: Limits) -> RunResult:
        """Run the compiler and return its result. Raises ExecutionLost for a failure that the program did not cause."""
        source = make_memfd(program.source.encode("utf-8", "surrogatepass"))
        try:
            run_spec = make_run_spec("compile", program, limits, seed=self._seed)
            result = self._execute(run_spec, CompiledProgram(source, source), b"")
        finally:
            os.close(source)
        if result.outcome is Outcome.EXITED and result.exit_code == COMPILER_KILLED:
            # The sandbox's own kills, for exceeded limits, have other outcomes.
            raise KilledExternally(f"a process outside the run killed the {program.language} compiler by SIGKILL")
        if result.outcome is Outcome.EXITED and result.exit_code == COMPILER_BROKEN:
            raise ExecutionLost(f"the {program.language} compiler did not start: {result.stderr.decode()}")
        return result

    def _check_language(self, name: str) -> None:
        """Check, once, that a trivial program compiles and runs. Raises BackendUnavailable for a broken compiler."""
        language = languages.load(name)
        if name in self._tested_languages:
            return
        try:
            if not language.toolchain():
                return
        except LookupError as error:
            raise BackendUnavailable(f"cannot compile {name}: {error}") from error
        self._tested_languages.add(name)
        try:
            program = Program(language.SELF_TEST, name)
            result = self.compile(program)
            if not isinstance(result, RunResult):
                run_spec = make_run_spec("run", program, Limits(), seed=self._seed)
                result = self._execute(run_spec, result, b"3 4\n")
            if result.outcome is not Outcome.EXITED or result.stdout.strip() != b"7":
                output = result.stderr.decode("utf-8", "replace").strip()[:500]
                raise BackendUnavailable(f"a trivial {name} program does not work: {result.outcome.value} {output}")
        except BaseException:
            self._tested_languages.discard(name)
            raise
