"""Python, in the interpreter of the zygote. The artifact is the marshalled code object, after a byte for whether the
program is stateless (_purity.py).

A program runs as `__main__` of a process of its own: real descriptors 0, 1 and 2, its own file as argv[0], and
exit status, atexit handlers, waiting for threads and flushing as in `python solution.py`.
"""

import _thread
import ast
import atexit
import builtins
import gc
import json
import marshal
import os
import resource
import signal
import site
import sys
import threading
import time
import types
import weakref
from decimal import Decimal
from fractions import Fraction
from importlib import import_module
from typing import Any

from sandbox.languages import _purity
from sandbox.languages._codec import FrameStream
from sandbox.languages._submission_peer import SubmissionPeer

SOURCE_FILE = "solution.py"
SELF_TEST = "print(sum(map(int, input().split())))"
EXECUTABLE = False
CALLABLE = True

# LiveCodeBench's imports before the solution of a call problem; solutions in datasets rely on them.
_STARRED = (
    "string re datetime collections heapq bisect copy math random statistics itertools functools operator io sys"
    " json builtins typing"
).split()
_RECURSION_OF_CALLS = 50_000  # LiveCodeBench's, too
_SHARES, _ALONE = b"\1", b"\0"  # the first byte of an artifact
_OF_SCRIPTS = (b"input(", b"stdin", b"open(")  # a program with one of these is a script: no purity check
_MAX_SHARING = 1 << 16  # bytes of a program's text
_HEADER_BYTES = 8  # bytes before each list of arguments
# The time limit of calls that share a process: a factor of their expected time, and a constant.
_TIMEOUT_FACTOR, _TIMEOUT_SECONDS = 2, 0.1
# The time limit of forks: a factor of the program's execution time, at most so many seconds.
_GROWTH_FACTOR, _MAX_SECONDS = 4, 1.0
_SLOW_SECONDS = 0.003  # a program that takes longer to execute is executed once and forked for each call
_FRAMES_BELOW = 6  # frames of this module below a program, which expects none
# Exit statuses of a referee that raised EOFError, because the submission's output ended early, or any other exception.
# Neither is a score of testlib, so the judge need not parse stderr.
REFEREE_CRASHED, REFEREE_LEFT_ALONE = 170, 171
_FRAMES_OF_SERVER = 10  # frames of this module below a function that the tests call
_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.items()))  # == takes them for sets
_ATOMS = frozenset([int, float, str, bool, type(None)])


def _builtins_of_calls() -> dict[str, Any]:
    """Return the imported names with the builtins. As globals, `operator.add` would count as the program's `add`."""
    names: dict[str, Any] = {}
    exec("".join(f"from {module} import *\nimport {module}\n" for module in _STARRED), names)
    return {**names, **vars(builtins)}


_builtins: dict[str, Any] = {}  # of calls; made in the zygote
_test_runner: list[types.ModuleType] = []  # the module that runs tests, in the zygotes of referees
_program: types.ModuleType  # pristine in the zygote; each child has its own copy


def toolchain() -> list[str]:
    """Return no paths, since the interpreter itself compiles."""
    return []


def warm() -> None:
    """Make the builtins of calls, once, in the zygote."""
    _builtins.update(_builtins_of_calls())
    _purity.set_library_names(_builtins)


def prepare(path: str) -> None:
    """Make the initial state of every program, once, in the zygote."""
    global _program
    _program = types.ModuleType("__main__")  # not earlier: gc.freeze() would make it permanent
    vars(_program).update(__file__=path, __builtins__=builtins, __cached__=None)
    sys.modules["__main__"] = _program
    sys.argv = [path]
    sys.orig_argv = [sys.executable, path]
    sys.path.insert(0, os.path.dirname(path))
    sys.setrecursionlimit(1000 + _FRAMES_BELOW)
    site.setquit()
    site.setcopyright()
    site.sethelper()
    sys.set_int_max_str_digits(0)


def compile_source(source: bytes, path: str) -> bytes:
    """Return the marshalled code object. Raises SyntaxError or ValueError.

    Call it only in a child, since it may exhaust memory or the C stack.
    """
    code = compile(source, path, "exec", dont_inherit=True)
    return (_SHARES if _may_share(source) else _ALONE) + marshal.dumps(code)


def _may_share(source: bytes) -> bool:
    """Return whether the calls of a program may share a process; see _purity.py."""
    if any(word in source for word in _OF_SCRIPTS) or len(source) > _MAX_SHARING:
        return False
    try:
        return _purity.is_stateless(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def may_share_process(artifact: int) -> bool:
    """Return whether the calls of a compiled program may share a process. artifact: its descriptor."""
    return os.pread(artifact, 1, 0) == _SHARES


def _code(artifact: bytes) -> types.CodeType:
    return marshal.loads(memoryview(artifact)[1:])  # type: ignore[no-any-return]


def run(artifact: bytes, arguments: list[str]) -> int:
    """Run the program to its end and return its exit status, or one of the two above."""
    sys.argv += arguments
    sys.orig_argv += arguments
    status = crashed = 0
    try:
        exec(_code(artifact), vars(_program))
    except BaseException as error:
        status = _report(error)
        if _test_runner and not isinstance(error, SystemExit):
            crashed = REFEREE_LEFT_ALONE if isinstance(error, EOFError) else REFEREE_CRASHED
    finished = _finish(status)
    if _test_runner and finished != status:  # its output could not be flushed, and 120 would be a partial score
        crashed = crashed or REFEREE_CRASHED
    return crashed or finished


def call(artifact: bytes, entry_point: str, result_fd: int) -> int:
    """Call entry_point with the JSON list of arguments on stdin, and write the encoded result to descriptor
    `result_fd`. Returns the exit status."""
    arguments = json.loads(_taken_from_stdin())
    namespace = _namespace_of_solution()
    namespace["__builtins__"] = _builtins
    dumps = json.dumps  # before the program can replace it
    sys.setrecursionlimit(_RECURSION_OF_CALLS)
    try:
        exec(_code(artifact), namespace)
        _write(result_fd, dumps(to_json(_function(namespace, entry_point)(*arguments)), check_circular=False))
        return 0  # the value has been written; skip the program's cleanup
    except BaseException as error:
        return _report(error) or 1  # SystemExit(0) in place of a value is not a success
    finally:
        _flush(getattr(sys, "stderr", None))


def _function(namespace: dict[str, Any], entry_point: str) -> Any:
    solution = namespace.get("Solution")
    if solution is not None and hasattr(solution, entry_point):
        return getattr(solution(), entry_point)
    if entry_point in namespace:
        return namespace[entry_point]
    raise NameError(f"the program defines no {entry_point!r}")


def call_each(artifact: bytes, entry_point: str, result_fd: int, max_seconds: float) -> int:
    """Call entry_point with one list of arguments after the other, as long as this takes no more than max_seconds of
    CPU time. For each call that returns, write a line to descriptor `result_fd`: its CPU seconds and the encoded value.
    Returns 0.

    The program must satisfy `may_share_process`. stdin has the JSON of each list after its length in bytes. Each call
    gets a freshly executed program. A call that fails ends the process without a line, and so does one that takes far
    longer than max_seconds.
    """
    code, clock = _code(artifact), time.thread_time  # a timer does not make this clock coarse
    source = os.dup(0)
    _empty_stdin()
    place = 0
    begun = clock()
    at_start = {**_namespace_of_solution(), "__builtins__": _builtins}
    try:
        while head := os.pread(source, _HEADER_BYTES, place):
            length = int.from_bytes(head, "little")
            text = os.pread(source, length, place + _HEADER_BYTES)
            namespace = _fresh_namespace(at_start)
            sys.setrecursionlimit(_RECURSION_OF_CALLS)
            exec(code, namespace)
            if place == 0:
                executed_seconds = clock() - begun
                if executed_seconds > _SLOW_SECONDS:
                    max_seconds = max(
                        max_seconds, min(_GROWTH_FACTOR * executed_seconds, _MAX_SECONDS), executed_seconds
                    )
                    _call_in_forks(namespace, entry_point, source, result_fd, executed_seconds, max_seconds)
                    return 0
                signal.setitimer(signal.ITIMER_PROF, _TIMEOUT_FACTOR * max_seconds + _TIMEOUT_SECONDS)
            value = json.dumps(to_json(_function(namespace, entry_point)(*json.loads(text))), check_circular=False)
            ended = clock()
            _write(result_fd, f"{ended - begun:.6f} {value}\n")
            if ended > max_seconds:
                return 0
            begun = ended
            place += _HEADER_BYTES + length
    except BaseException:
        pass  # the isolated run of this call shows the failure
    return 0


def _call_in_forks(
    namespace: dict[str, Any],
    entry_point: str,
    source: int,
    returned: int,
    executed_seconds: float,
    max_seconds: float,
) -> None:
    """Do the remaining calls of `call_each`, each in a fork of this process."""
    place, used = 0, 0.0
    gc.freeze()  # so that no collection in a fork writes to the pages that it shares with us
    while (head := os.pread(source, _HEADER_BYTES, place)) and used < max_seconds:
        length = int.from_bytes(head, "little")
        child = os.fork()
        if child == 0:
            signal.setitimer(signal.ITIMER_PROF, _TIMEOUT_FACTOR * max_seconds + _TIMEOUT_SECONDS)
            status = 1
            try:
                arguments = json.loads(os.pread(source, length, place + _HEADER_BYTES))
                value = json.dumps(to_json(_function(namespace, entry_point)(*arguments)), check_circular=False)
                _write(returned, f"{executed_seconds + time.thread_time():.6f} {value}\n")
                status = 0
            finally:
                os._exit(status)
        if os.waitpid(child, 0)[1] != 0:
            return
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = usage.ru_utime + usage.ru_stime
        place += _HEADER_BYTES + length


def _fresh_namespace(at_start: dict[str, Any]) -> dict[str, Any]:
    """Make a fresh namespace for the program, and install it as that of the module `solution`."""
    program = types.ModuleType("solution")
    vars(program).update(at_start)
    sys.modules["solution"] = sys.modules["__main__"] = program
    return vars(program)


def evaluate(artifact: bytes, preamble: bytes, result_fd: int) -> int:
    """Evaluate the call on stdin, whose text the judge has checked, and write its encoded value to descriptor
    `result_fd`. Returns the exit status.

    preamble   the artifact of the code that runs first, in the same namespace
    """
    expression = compile(_taken_from_stdin(), "<test>", "eval")
    namespace = _namespace_of_solution()
    dumps = json.dumps  # before the program can replace it
    try:
        exec(_code(preamble), namespace)
        exec(_code(artifact), namespace)
        _write(result_fd, dumps(to_json(eval(expression, namespace), is_literal=True), check_circular=False))
        return 0
    except BaseException as error:
        return _report(error) or 1
    finally:
        _flush(getattr(sys, "stderr", None))


def serve(artifact: bytes, preamble: bytes, names: list[str]) -> int:
    """Run the program, then serve requests of the tests at the other end of stdin and stdout until they end.
    Returns the exit status.

    preamble  the artifact of the code that runs first, in the same namespace
    names     the names that the tests use of the program
    """
    wire = _taken_streams()
    namespace = _namespace_of_solution()
    peer = SubmissionPeer(wire, namespace, tuple(names))
    sys.setrecursionlimit(sys.getrecursionlimit() + _FRAMES_OF_SERVER)
    try:
        exec(_code(preamble), namespace)
        exec(_code(artifact), namespace)
        peer.serve()
        return 0
    except BaseException as error:
        return _report(error) or 1  # SystemExit(0) in place of a reply is not a success
    finally:
        _flush(getattr(sys, "stderr", None))


def warm_for_tests() -> None:
    """Load what the processes of tests need, once, in the zygote of referees."""
    import_module("unittest")
    _test_runner.append(import_module("sandbox.languages._test_runner"))


def run_tests(
    artifact: bytes, preamble: bytes, statements: str, names: tuple[str, ...], classes: tuple[str, ...], report: int
) -> int:
    """Run tests of a submission, which is at the other end of stdin and stdout, and write how they ended to descriptor
    `report`. Does not return.

    artifact    compiled code that runs before the tests, and after `preamble`
    preamble    compiled code that runs first
    statements  the tests
    names       the names that the tests use of the submission
    classes     those of the names that are classes
    """
    (test_runner,) = _test_runner
    wire = _taken_streams()
    sys.set_int_max_str_digits(0)  # as for programs
    return test_runner.run(  # type: ignore[no-any-return]
        _code(artifact), _code(preamble), statements, names, classes, report, wire
    )


def _taken_streams() -> FrameStream:
    """Return stdin and stdout as a connection, and put /dev/null in their place."""
    wire = FrameStream(os.dup(0), os.dup(1))
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    return wire


def _taken_from_stdin() -> bytes:
    """Read all of stdin, which is empty from then on."""
    with open(0, "rb", closefd=False) as stdin:
        content = stdin.read()
    _empty_stdin()
    return content


def _empty_stdin() -> None:
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)


def _namespace_of_solution() -> dict[str, Any]:
    """Return the namespace of a program that is a module, so that a script's `if __name__ == "__main__"` does not
    run."""
    _program.__name__ = "solution"
    sys.modules["solution"] = _program
    return vars(_program)


def _write(descriptor: int, text: str) -> None:
    encoded = text.encode()
    while encoded:
        encoded = encoded[os.write(descriptor, encoded) :]


def to_json(value: Any, is_literal: bool = False) -> Any:
    """Encode a value as JSON: lists and atoms as they are, any other container as a one-key object.

    Only the underlying data counts: an overridden __eq__, __repr__ or __int__ is not called. Raises TypeError for
    anything that is not plain data.

    is_literal  also encode whatever a Python literal can express, fractions and decimals; anything else becomes an
                object that equals nothing
    """
    kind = type(value)
    if kind in _ATOMS:
        return value
    if issubclass(kind, list):
        return value if _ATOMS.issuperset(map(type, value)) else [to_json(item, is_literal) for item in value]
    if issubclass(kind, tuple):
        return {"tuple": [to_json(item, is_literal) for item in value]}
    if issubclass(kind, set | frozenset) or (is_literal and kind in _VIEWS):
        return {"set": [to_json(item, is_literal) for item in value]}
    if issubclass(kind, dict):
        pairs = dict.items(value)
        return {"dict": [[to_json(key, is_literal), to_json(item, is_literal)] for key, item in pairs]}
    if issubclass(kind, int):
        return int.__index__(value)
    if issubclass(kind, float):
        return float.__float__(value)
    if issubclass(kind, str):
        return str.__str__(value)
    if kind.__module__ == "numpy" and hasattr(value, "tolist"):
        return to_json(value.tolist(), is_literal)
    if not is_literal:
        raise TypeError(f"a value of type {kind.__name__} cannot be compared")
    if issubclass(kind, bytes | bytearray):
        return {"bytes": value.hex()}
    if issubclass(kind, complex):
        return {"complex": [value.real, value.imag]}
    if kind is Fraction or (kind is Decimal and value.is_finite()):
        return {"ratio": list(value.as_integer_ratio())}
    return {"other": kind.__name__}


def _report(error: BaseException) -> int:
    """Report an uncaught exception as the interpreter does; return the exit status."""
    if isinstance(error, SystemExit):
        if error.code is None:
            return 0
        if isinstance(error.code, int):
            return error.code & 0xFF if -(2**63) <= error.code < 2**63 else 255
        print(error.code, file=sys.stderr)
        return 1
    if error.__traceback__ is not None:
        error.__traceback__ = _last_frames(error.__traceback__.tb_next)  # skips this module's frame
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except BaseException:
        sys.__excepthook__(type(error), error, error.__traceback__)
    return 1


def _last_frames(trace: types.TracebackType | None) -> types.TracebackType | None:
    """Return the innermost thousand frames: Python 3.13 takes seconds to print the 50,000 of an endless recursion."""
    ahead = trace
    for _ in range(1000):
        if ahead is None:
            return trace
        ahead = ahead.tb_next
    while trace is not None and ahead is not None:
        trace, ahead = trace.tb_next, ahead.tb_next
    return trace


def _finish(status: int) -> int:
    """Do what `python` does after the last line, and return the exit status.

    Wait for threads, run atexit handlers, flush, let go of the program's objects (which runs destructors and flushes
    files left open) and flush what these have printed. The interpreter is not torn down, since that would touch every
    page that is shared with the zygote.
    """
    global _program
    try:
        if _thread._count() or threading._threading_atexits:  # type: ignore[attr-defined]
            threading._shutdown()  # type: ignore[attr-defined]
    except BaseException:
        status = status or 1
    atexit._run_exitfuncs()
    status = _flush(getattr(sys, "stdout", None), getattr(sys, "stderr", None)) or status
    gc.collect()  # while all objects are reachable: sorts files into the order in which they must be flushed
    sys.modules.pop("__main__", None)
    sys.stdout, sys.stderr = getattr(sys, "__stdout__", None), getattr(sys, "__stderr__", None)
    program = weakref.ref(_program)
    del _program
    gc.collect()  # destructors still see the globals; the zygote's own objects are frozen and not looked at
    remaining = program()
    if remaining is not None:  # something still refers to the module
        for name in vars(remaining).keys() - {"__builtins__"}:
            setattr(remaining, name, None)
        gc.collect()
    _flush(sys.stdout, sys.stderr)
    return status


def _flush(*streams: Any) -> int:
    """Flush the streams. Return 0 or, if that fails, 120, the exit status of `python` in that case."""
    status = 0
    for stream in streams:
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except BaseException:
            status = 120
    return status
