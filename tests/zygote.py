"""Process that has imported what the commands import, and forks a child for each command that a test starts.

A fresh `python -m cli train` spends five to ten seconds of CPU on the imports of torch, transformers and vLLM. A fork
of this process starts in some milliseconds, and then does what the fresh interpreter would do: standard streams,
arguments, import path, environment, signal handlers, warnings filters, atexit functions and exit status are its own. A
child that needs other settings at import, or an option of Python that is not handled here, executes a fresh
interpreter. Children share one hash seed.

The zygote stays single-threaded, because a fork copies only the calling thread and would leave locks of others held. It
exits, and kills its children, when the controller of the test run exits.
"""

import atexit
import gc
import importlib
import io
import marshal
import os
import pkgutil
import runpy
import selectors
import shutil
import signal
import socket
import sys
import threading
import types
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from zygote_client import MAX_MESSAGE

ROOT = Path(__file__).parents[1]
_PACKAGES = ("sandbox", "rewards", "curate", "train")
_NOT_IMPORTED = (
    *("rewards.trl", "rewards.verifiers", "rewards.verl", "train.evaluation.for_inspect"),  # foreign trainers
    "curate.dedup.kernel",  # vLLM does not start where llvmlite is loaded
)
_LIBRARIES = (
    "datasets",
    "torch._dynamo",
    "transformers.models.auto.modeling_auto",
    "transformers.models.qwen2.modeling_qwen2",
    "tokenizers",
    "vllm.v1.engine.async_llm",
    "vllm.v1.worker.cpu_worker",
    "vllm.model_executor.models.qwen2",
    "vllm.entrypoints.openai.api_server",
    "vllm.entrypoints.llm",
    "matplotlib.pyplot",
    "obstore",
    "peft",
    "uvicorn",
    "ray.dag.compiled_dag_node",  # what ray imports at exit
)
# Variables that libraries or the interpreter read at start, by the beginnings of their names.
_READ_AT_START = (
    "PYTHON",
    "OMP_",
    "MKL_",
    "OPENBLAS_",
    "TORCH",
    "HF_",
    "TRANSFORMERS_",
    "VLLM_LOGGING_",
    "ARROW_",
    "MPL",
)
_APPLIED_TO_CHILDREN = {"PYTHONPATH", "PYTHONSAFEPATH", "PYTHONUNBUFFERED", "PYTHONWARNINGS"}


@dataclass(frozen=True, slots=True)
class Request:
    arguments: list[str]
    cwd: str
    environment: dict[str, str]
    start_new_session: bool
    is_tied: bool
    descriptors: list[int]


@dataclass(frozen=True, slots=True)
class Program:
    """What the arguments of an interpreter say, and a function that runs it in the module __main__."""

    run: Callable[[types.ModuleType], object]
    arguments: list[str]
    folder: str  # what Python puts first on the import path
    warnings: list[str]
    is_unbuffered: bool


class Zygote:
    """The loop that takes requests, forks, and reports exit statuses."""

    def __init__(self, listener: socket.socket, controller: int) -> None:
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._controller = os.pidfd_open(controller)
        self._selector.register(self._controller, selectors.EVENT_READ)
        self._selector.register(listener, selectors.EVENT_READ, self._accept)
        self._children: list[_Child] = []

    def next_child(self) -> Request | None:
        """Serve until the run ends, and return None; return the request in each child."""
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    for child in self._children:
                        child.kill()
                    return None
                request: Request | None = key.data()
                if request:
                    return request

    def _accept(self) -> Request | None:
        connection, _ = self._listener.accept()
        message, descriptors, _, _ = socket.recv_fds(connection, MAX_MESSAGE, 3)
        if not message:
            connection.close()
            return None
        arguments, cwd, environment, start_new_session, is_tied = marshal.loads(message)
        request = Request(arguments, cwd, environment, start_new_session, is_tied, descriptors)
        pid = os.fork()
        if pid == 0:
            _become_child(request, connection, self._close)
            return request
        for descriptor in descriptors:
            os.close(descriptor)
        child = _Child(pid, os.pidfd_open(pid), connection, request.is_tied)
        self._children.append(child)
        self._selector.register(child.descriptor, selectors.EVENT_READ, lambda: self._report(child))
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._release(child))
        return None

    def _report(self, child: "_Child") -> None:
        """Send the exit status. Like a child of the client, the process stays a zombie until the client has read it."""
        self._selector.unregister(child.descriptor)
        child.has_exited = True
        if child.connection.fileno() == -1:
            self._reap(child)
            return
        found = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert found is not None
        status = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
        with suppress(OSError):  # the client may have exited
            child.connection.send(marshal.dumps(status))

    def _release(self, child: "_Child") -> None:
        """Close the connection of a client that has read the status, or has gone."""
        self._selector.unregister(child.connection)
        with suppress(OSError):
            child.connection.recv(16)  # a socket closed with something unread is reset
        if child.has_exited:
            self._reap(child)
        elif child.is_tied:
            child.kill()
        child.connection.close()

    def _reap(self, child: "_Child") -> None:
        os.waitpid(child.pid, 0)
        os.close(child.descriptor)
        self._children.remove(child)

    def _close(self) -> None:
        """Close in a child what belongs to the zygote."""
        self._selector.close()
        self._listener.close()
        os.close(self._controller)
        for child in self._children:
            os.close(child.descriptor)
            child.connection.close()


@dataclass(slots=True, eq=False)
class _Child:
    pid: int
    descriptor: int  # of the process
    connection: socket.socket
    is_tied: bool
    has_exited: bool = False

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        with suppress(ProcessLookupError):  # if it leads no group any more
            os.killpg(self.pid, signal.SIGKILL)


def _become_child(request: Request, connection: socket.socket, close: Callable[[], None]) -> None:
    """Take the process group, standard streams and folder of the request, and report the process id."""
    try:
        os.setsid() if request.start_new_session else os.setpgid(0, 0)
        for number, descriptor in enumerate(request.descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        close()
        os.chdir(request.cwd)
    except OSError as error:
        connection.send(marshal.dumps((os.getpid(), (error.errno, error.strerror, error.filename))))
        os._exit(1)
    os.environ.clear()
    os.environ.update(request.environment)
    connection.send(marshal.dumps((os.getpid(), ())))
    connection.close()


def preload() -> None:
    """Import what commands import in practice, as far as it is installed."""
    for name in [*_modules(), *_LIBRARIES]:
        try:
            importlib.import_module(name)
        except ImportError as error:
            print(f"{name}: {error}", file=sys.stderr, flush=True)


def _modules() -> Iterator[str]:
    for package in _PACKAGES:
        for module in pkgutil.walk_packages([str(ROOT / package)], f"{package}."):
            if not module.name.startswith(_NOT_IMPORTED) and not module.name.endswith("__main__"):
                yield module.name


def _parsed(arguments: list[str], environment: Mapping[str, str]) -> Program | None:
    """Return the program of a command line, or None if a fresh interpreter is needed to run it."""
    given = [word for word in environment.get("PYTHONWARNINGS", "").split(",") if word]
    is_unbuffered = bool(environment.get("PYTHONUNBUFFERED"))
    name = os.path.basename(arguments[0])
    rest = arguments[1:]
    if name == "curate":
        rest = [shutil.which(arguments[0], path=environment.get("PATH", os.defpath)) or "", *rest]
    elif not name.startswith("python"):
        return None
    while rest and rest[0][:2] in ("-W", "-u"):
        option, *rest = rest
        if option == "-u":
            is_unbuffered = True
        elif option != "-W":
            given.append(option[2:])
        elif rest:
            given.append(rest.pop(0))
    if not rest:
        return None
    first, *rest = rest
    if first in ("-c", "-m") and rest:
        run = _run_code(rest[0], "<string>") if first == "-c" else _run_module(rest[0])
        return Program(run, [first, *rest[1:]], "" if first == "-c" else os.getcwd(), given, is_unbuffered)
    if os.path.isfile(first):
        folder = os.path.dirname(os.path.realpath(first))
        return Program(_run_script(os.path.abspath(first)), [first, *rest], folder, given, is_unbuffered)
    return None


def _run_code(text: str | bytes, file: str) -> Callable[[types.ModuleType], object]:
    return lambda main: exec(compile(text, file, "exec"), main.__dict__)


def _run_script(path: str) -> Callable[[types.ModuleType], object]:
    def run(main: types.ModuleType) -> None:
        main.__file__ = path
        _run_code(Path(path).read_bytes(), path)(main)

    return run


def _run_module(name: str) -> Callable[[types.ModuleType], object]:
    def run(main: types.ModuleType) -> None:
        for each in (name, f"{name}.__main__"):
            sys.modules.pop(each, None)
        runpy._run_module_as_main(name)  # type: ignore[attr-defined]  # what `python -m` calls

    return run


def _needs_fresh_interpreter(environment: Mapping[str, str], known: Mapping[str, str]) -> bool:
    return any(
        name.startswith(_READ_AT_START) and name not in _APPLIED_TO_CHILDREN and known.get(name) != value
        for name, value in environment.items()
    )


def _prepare(program: Program, environment: Mapping[str, str], path: list[str]) -> types.ModuleType:
    """Give this process the state of a fresh interpreter, and return its module __main__."""
    sys.argv = program.arguments
    first = [] if environment.get("PYTHONSAFEPATH") else [program.folder]
    added = environment["PYTHONPATH"].split(os.pathsep) if environment.get("PYTHONPATH") else []
    sys.path[:] = [*first, *dict.fromkeys([*map(os.path.abspath, added), *path])]
    importlib.invalidate_caches()
    sys.warnoptions[:] = program.warnings
    warnings._processoptions(program.warnings)  # type: ignore[attr-defined]
    for stream in (sys.stdout, sys.stderr):
        assert isinstance(stream, io.TextIOWrapper)
        stream.reconfigure(
            line_buffering=program.is_unbuffered or stream is sys.stderr or stream.isatty(),
            write_through=program.is_unbuffered,
        )
    if process := sys.modules.get("multiprocessing.process"):
        process.ORIGINAL_DIR = os.getcwd()  # type: ignore[attr-defined]
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = sys.modules["builtins"]
    sys.modules["__main__"] = main
    return main


def _run(program: Program, main: types.ModuleType) -> NoReturn:
    """Run the program, end as an interpreter does, and leave without taking down what was imported."""
    status, interrupted = 0, False
    try:
        program.run(main)
    except SystemExit as error:
        if error.code is not None and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
        status = 0 if error.code is None else error.code if isinstance(error.code, int) else 1
    except BaseException as error:
        trace = error.__traceback__
        while trace and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        status, interrupted = 1, isinstance(error, KeyboardInterrupt)
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads that are no daemons
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except OSError:
            status = 120
    if interrupted:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(status & 0xFF)


def _execute(arguments: list[str]) -> NoReturn:
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    if os.path.basename(arguments[0]).startswith("python"):
        arguments = [sys.executable, *arguments[1:]]  # Python finds its environment by this word
    try:
        os.execvp(arguments[0], arguments)
    except OSError as error:
        print(f"{arguments[0]}: {error.strerror}", file=sys.stderr, flush=True)
    os._exit(127)


def _handlers() -> dict[int, object]:
    return {number: signal.getsignal(number) for number in signal.valid_signals()}


def main(folder: str, listener: int, controller: int, preloads: bool) -> None:
    if os.fork():  # not below the test process that happens to start it, whose tests look at what is below them
        os._exit(0)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in what they start in the background
    log = os.open(os.path.join(folder, "log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    at_start, handlers = dict(os.environ), _handlers()
    tests = str(Path(__file__).parent)
    sys.path.remove(tests)
    path = list(sys.path)
    sys.path[:0] = [str(ROOT), tests]
    if preloads:
        preload()
        from shared_images import share_images

        share_images(beginning_with_the_usual_one=True)
    set_by_imports = {name: value for name, value in os.environ.items() if at_start.get(name) != value}
    for number, handler in handlers.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)  # type: ignore[arg-type]
    for finalizer in weakref.finalize._registry:  # type: ignore[attr-defined]
        finalizer.atexit = False  # what imports have made belongs to this process
    gc.collect()
    gc.freeze()
    request = Zygote(socket.socket(fileno=listener), controller).next_child()
    if request is None:
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)
    program = _parsed(request.arguments, request.environment)
    if program is None or _needs_fresh_interpreter(request.environment, at_start | set_by_imports):
        _execute(request.arguments)
    for name, value in set_by_imports.items():
        os.environ.setdefault(name, value)
    _run(program, _prepare(program, request.environment, path))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "True")
