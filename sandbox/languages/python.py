"""Python, in the interpreter of the zygote.

The artifact is one byte, 1 for a stateless program (_purity.py), followed by the marshalled code object. A program runs
as `__main__` of its own process, as with `python solution.py`: it has descriptors 0, 1 and 2, its file as argv[0], and
an exit status; at its end, the process waits for threads, runs atexit handlers, and flushes.
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

# LiveCodeBench imports these modules before a solution with calls, and solutions in datasets require them.
_STAR_IMPORTS = (
    "string re datetime collections heapq bisect copy math random statistics itertools functools operator io sys"
    " json builtins typing"
).split()
_CALL_RECURSION_LIMIT = 50_000  # as in LiveCodeBench
_STATELESS, _STATEFUL = b"\1", b"\0"  # the first byte of an artifact
_SCRIPT_MARKERS = (b"input(", b"stdin", b"open(")  # a source with one of these counts as stateful, without a check
_MAX_CHECKED_BYTES = 1 << 16  # maximum size of a source for the purity check
_HEADER_BYTES = 8  # size of the length before each list of arguments
# The timeout of calls that share a process: a multiple of their time limit, plus a constant.
_TIMEOUT_FACTOR, _TIMEOUT_SECONDS = 2, 0.1
# The time limit of forked calls: a multiple of the program's execution time, with a maximum in seconds.
_GROWTH_FACTOR, _MAX_SECONDS = 4, 1.0
_SLOW_SECONDS = 0.003  # execution time of a program above which it is executed once, and forked for each call
_FRAMES_BELOW = 6  # frames of this module below a program, added to its recursion limit
# Exit statuses of a Python referee that raised an exception, or EOFError at the end of the submission's output. testlib
# uses neither, so the judge need not parse stderr.
REFEREE_CRASHED, REFEREE_HIT_EOF = 170, 171
_FRAMES_OF_SERVER = 10  # frames of this module below a function that the tests call
_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.items()))  # dict views that == compares as sets
_ATOMS = frozenset([int, float, str, bool, type(None)])


def _make_call_builtins() -> dict[str, Any]:
    """Return the builtins, and the names of _STAR_IMPORTS. As globals, these would count as the program's functions."""
    names: dict[str, Any] = {}
    exec("".join(f"from {module} import *\nimport {module}\n" for module in _STAR_IMPORTS), names)
    return {**names, **vars(builtins)}


_builtins: dict[str, Any] = {}  # builtins of programs with calls; filled by warm()
_test_runner: list[types.ModuleType] = []  # the module _test_runner, after warm_for_tests(); otherwise empty
_program: types.ModuleType  # the module `__main__` of the program; unused in the zygote, from which children copy it


def toolchain() -> list[str]:
    """Return no paths, since the zygote's interpreter is the compiler."""
    return []


def warm() -> None:
    """Initialize the builtins of programs with calls."""
    _builtins.update(_make_call_builtins())
    _purity.set_library_names(_builtins)


def prepare(path: str) -> None:
    """Create the module in which every program runs, and set up the interpreter for it."""
    global _program
    _program = types.ModuleType("__main__")  # not earlier, since gc.freeze() would make it permanent
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
    """Return the artifact of a program. Raises SyntaxError or ValueError.

    Call it only in a child, since it may exhaust memory or the C stack.
    """
    code = compile(source, path, "exec", dont_inherit=True)
    return (_STATELESS if _may_share(source) else _STATEFUL) + marshal.dumps(code)


def _may_share(source: bytes) -> bool:
    if any(word in source for word in _SCRIPT_MARKERS) or len(source) > _MAX_CHECKED_BYTES:
        return False
    try:
        return _purity.is_stateless(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def may_share_process(artifact: int) -> bool:
    """Return whether the calls of a compiled program may share a process. artifact: its descriptor."""
    return os.pread(artifact, 1, 0) == _STATELESS


def _load_code(artifact: bytes) -> types.CodeType:
    return marshal.loads(memoryview(artifact)[1:])  # type: ignore[no-any-return]


def run(artifact: bytes, arguments: list[str]) -> int:
    """Run the program and return its exit status, or REFEREE_CRASHED or REFEREE_HIT_EOF."""
    sys.argv += arguments
    sys.orig_argv += arguments
    status = crashed = 0
    try:
        exec(_load_code(artifact), vars(_program))
    except BaseException as error:
        status = _report(error)
        if _test_runner and not isinstance(error, SystemExit):
            crashed = REFEREE_HIT_EOF if isinstance(error, EOFError) else REFEREE_CRASHED
    finished = _finish(status)
    if _test_runner and finished != status:  # its flush failed, and 120 would mean partial credit
        crashed = crashed or REFEREE_CRASHED
    return crashed or finished


def call(artifact: bytes, entry_point: str, result_fd: int) -> int:
    """Call entry_point with the JSON list of arguments on stdin; write the result to result_fd. Returns the status."""
    arguments = json.loads(_read_stdin())
    namespace = _prepare_namespace()
    namespace["__builtins__"] = _builtins
    dumps = json.dumps  # before the program can replace it
    sys.setrecursionlimit(_CALL_RECURSION_LIMIT)
    try:
        exec(_load_code(artifact), namespace)
        _write(result_fd, dumps(to_json(_find_function(namespace, entry_point)(*arguments)), check_circular=False))
        return 0
    except BaseException as error:
        return _report(error) or 1  # an exit with status 0, too, is a failure: it returned no value
    finally:
        _flush(getattr(sys, "stderr", None))


def _find_function(namespace: dict[str, Any], entry_point: str) -> Any:
    solution = namespace.get("Solution")
    if solution is not None and hasattr(solution, entry_point):
        return getattr(solution(), entry_point)
    if entry_point in namespace:
        return namespace[entry_point]
    raise NameError(f"the program defines no {entry_point!r}")


def call_each(artifact: bytes, entry_point: str, result_fd: int, max_seconds: float) -> int:
    """Call entry_point with one list of arguments after the other, for up to max_seconds of CPU time.

    stdin has the length in bytes and the JSON of each list. The program must satisfy `may_share_process`; it is
    executed again for each call. For each call that returns, this writes a line to result_fd: its CPU seconds and the
    encoded value. A call that fails, or takes far longer than max_seconds, ends the process without a line. Returns 0.
    """
    code, clock = _load_code(artifact), time.thread_time  # unlike process_time, precise while a timer is set
    source = os.dup(0)
    _replace_stdin_with_null()
    offset = 0
    start = clock()
    initial = {**_prepare_namespace(), "__builtins__": _builtins}
    try:
        while head := os.pread(source, _HEADER_BYTES, offset):
            length = int.from_bytes(head, "little")
            text = os.pread(source, length, offset + _HEADER_BYTES)
            namespace = _make_fresh_namespace(initial)
            sys.setrecursionlimit(_CALL_RECURSION_LIMIT)
            exec(code, namespace)
            if offset == 0:
                executed_seconds = clock() - start
                if executed_seconds > _SLOW_SECONDS:
                    max_seconds = max(
                        max_seconds, min(_GROWTH_FACTOR * executed_seconds, _MAX_SECONDS), executed_seconds
                    )
                    _call_in_forks(namespace, entry_point, source, result_fd, executed_seconds, max_seconds)
                    return 0
                signal.setitimer(signal.ITIMER_PROF, _TIMEOUT_FACTOR * max_seconds + _TIMEOUT_SECONDS)
            value = json.dumps(to_json(_find_function(namespace, entry_point)(*json.loads(text))), check_circular=False)
            ended = clock()
            _write(result_fd, f"{ended - start:.6f} {value}\n")
            if ended > max_seconds:
                return 0
            start = ended
            offset += _HEADER_BYTES + length
    except BaseException:
        pass  # the isolated rerun of this call reports the failure
    return 0


def _call_in_forks(
    namespace: dict[str, Any],
    entry_point: str,
    source: int,
    result_fd: int,
    executed_seconds: float,
    max_seconds: float,
) -> None:
    """Make the calls of `call_each`, each in a fork of this process, which has executed the program.

    source             descriptor of the lists of arguments
    executed_seconds   execution time of the program, which counts for each call
    """
    offset, used = 0, 0.0
    gc.freeze()  # a collection in a fork must not write to shared pages
    while (head := os.pread(source, _HEADER_BYTES, offset)) and used < max_seconds:
        length = int.from_bytes(head, "little")
        child = os.fork()
        if child == 0:
            signal.setitimer(signal.ITIMER_PROF, _TIMEOUT_FACTOR * max_seconds + _TIMEOUT_SECONDS)
            status = 1
            try:
                arguments = json.loads(os.pread(source, length, offset + _HEADER_BYTES))
                value = json.dumps(to_json(_find_function(namespace, entry_point)(*arguments)), check_circular=False)
                _write(result_fd, f"{executed_seconds + time.thread_time():.6f} {value}\n")
                status = 0
            finally:
                os._exit(status)
        if os.waitpid(child, 0)[1] != 0:
            return
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = usage.ru_utime + usage.ru_stime
        offset += _HEADER_BYTES + length


def _make_fresh_namespace(initial: dict[str, Any]) -> dict[str, Any]:
    program = types.ModuleType("solution")
    vars(program).update(initial)
    sys.modules["solution"] = sys.modules["__main__"] = program
    return vars(program)


def evaluate(artifact: bytes, preamble: bytes, result_fd: int) -> int:
    """Run the preamble and the program; write the value of the call on stdin to result_fd. Returns the exit status."""
    expression = compile(_read_stdin(), "<test>", "eval")
    namespace = _prepare_namespace()
    dumps = json.dumps  # before the program can replace it
    try:
        exec(_load_code(preamble), namespace)
        exec(_load_code(artifact), namespace)
        _write(result_fd, dumps(to_json(eval(expression, namespace), is_literal=True), check_circular=False))
        return 0
    except BaseException as error:
        return _report(error) or 1
    finally:
        _flush(getattr(sys, "stderr", None))


def serve(artifact: bytes, preamble: bytes, names: list[str]) -> int:
    """Run the preamble and the program, then serve requests of the tests until EOF. Returns the exit status.

    names: the program's names that the tests use.
    """
    stream = _take_streams()
    namespace = _prepare_namespace()
    peer = SubmissionPeer(stream, namespace, tuple(names))
    sys.setrecursionlimit(sys.getrecursionlimit() + _FRAMES_OF_SERVER)
    try:
        exec(_load_code(preamble), namespace)
        exec(_load_code(artifact), namespace)
        peer.serve()
        return 0
    except BaseException as error:
        return _report(error) or 1  # an exit with status 0, too, is a failure: it sent no reply
    finally:
        _flush(getattr(sys, "stderr", None))


def warm_for_tests() -> None:
    """Preload the modules for the tests' processes."""
    import_module("unittest")
    _test_runner.append(import_module("sandbox.languages._test_runner"))


def run_tests(
    artifact: bytes, preamble: bytes, statements: str, names: tuple[str, ...], classes: tuple[str, ...], report_fd: int
) -> int:
    """Run a test of the submission that is connected to stdin and stdout, and write a report. Does not return.

    artifact, preamble   artifacts of Assertions.setup and Assertions.given; see _test_runner.run for the others
    """
    (test_runner,) = _test_runner
    stream = _take_streams()
    sys.set_int_max_str_digits(0)
    return test_runner.run(  # type: ignore[no-any-return]
        _load_code(artifact), _load_code(preamble), statements, names, classes, report_fd, stream
    )


def _take_streams() -> FrameStream:
    stream = FrameStream(os.dup(0), os.dup(1))
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    return stream


def _read_stdin() -> bytes:
    with open(0, "rb", closefd=False) as stdin:
        content = stdin.read()
    _replace_stdin_with_null()
    return content


def _replace_stdin_with_null() -> None:
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)


def _prepare_namespace() -> dict[str, Any]:
    """Rename the program's module to `solution`, where `if __name__ == "__main__"` is false; return its namespace."""
    _program.__name__ = "solution"
    sys.modules["solution"] = _program
    return vars(_program)


def _write(descriptor: int, text: str) -> None:
    encoded = text.encode()
    while encoded:
        encoded = encoded[os.write(descriptor, encoded) :]


def to_json(value: Any, is_literal: bool = False) -> Any:
    """Encode plain data as JSON: lists and atoms unchanged, other types as an object with one key, the type.

    Calls no overridden __eq__, __repr__ or __int__. Raises TypeError for a value that is not plain data.

    is_literal  whether to encode bytes, complex, Fraction and Decimal values, too, and any other value as an object
                that equals nothing
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
        error.__traceback__ = _cut_to_last_frames(error.__traceback__.tb_next)  # skips this module's frame
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except BaseException:
        sys.__excepthook__(type(error), error, error.__traceback__)
    return 1


def _cut_to_last_frames(trace: types.TracebackType | None) -> types.TracebackType | None:
    """Return the innermost 1,000 frames: Python 3.13 takes seconds to print the 50,000 of an endless recursion."""
    ahead = trace
    for _ in range(1000):
        if ahead is None:
            return trace
        ahead = ahead.tb_next
    while trace is not None and ahead is not None:
        trace, ahead = trace.tb_next, ahead.tb_next
    return trace


def _finish(status: int) -> int:
    """Do what `python` does after the last line of a program, and return the exit status.

    Waits for threads, runs atexit handlers, flushes, releases the program's objects (which runs destructors and flushes
    open files), and flushes again. Does not finalize the interpreter, since that would copy every page shared with the
    zygote.
    """
    global _program
    try:
        if _thread._count() or threading._threading_atexits:  # type: ignore[attr-defined]
            threading._shutdown()  # type: ignore[attr-defined]
    except BaseException:
        status = status or 1
    atexit._run_exitfuncs()
    status = _flush(getattr(sys, "stdout", None), getattr(sys, "stderr", None)) or status
    gc.collect()  # before the release of objects, so that files flush in order
    sys.modules.pop("__main__", None)
    sys.stdout, sys.stderr = getattr(sys, "__stdout__", None), getattr(sys, "__stderr__", None)
    program = weakref.ref(_program)
    del _program
    gc.collect()  # destructors can still use the globals; skips the zygote's frozen objects
    remaining = program()
    if remaining is not None:  # other objects refer to the module
        for name in vars(remaining).keys() - {"__builtins__"}:
            setattr(remaining, name, None)
        gc.collect()
    _flush(sys.stdout, sys.stderr)
    return status


def _flush(*streams: Any) -> int:
    """Flush the streams; return 0 or, like `python`, 120 if that fails."""
    status = 0
    for stream in streams:
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except BaseException:
            status = 120
    return status
