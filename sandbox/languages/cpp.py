"""C++17, compiled by g++ inside the sandbox.

The artifact is a static executable. It starts twice as fast as a dynamic one, and needs no libraries in the file system
of programs.
"""

import os
import resource
import shlex
import shutil
import signal
from dataclasses import dataclass
from glob import glob

SOURCE_FILE = "solution.cpp"
SELF_TEST = "#include <iostream>\nint main() { int a, b; std::cin >> a >> b; std::cout << a + b; }"
EXECUTABLE = True
CALLABLE = False

_COMPILER = "/usr/bin/g++"
# With TESTSYS, checkers with testlib.h report partial credit by their exit status.
_OPTIONS = "-std=c++17 -O2 -static -pipe -fmax-errors=20 -DONLINE_JUDGE -DTESTSYS -fno-use-linker-plugin".split()
_TOOLS = "g++ as ld".split()
_FOLDERS = "/usr/include /usr/local/include /usr/lib/gcc /usr/libexec/gcc /usr/lib/*-linux-gnu* /usr/lib64".split()
_EXECUTABLE_FILE = "solution"
_OBJECT_FILE = "solution.o"
_PLAN_FILE = "plan"


def toolchain() -> list[str]:
    """Return the paths of the compiler's files. Raises LookupError if g++ is not installed."""
    missing = [tool for tool in _TOOLS if shutil.which(tool, path="/usr/bin") is None]
    if missing:
        raise LookupError(
            f"no {' and no '.join(missing)} in /usr/bin; type: apt install g++ (Fedora: dnf install gcc-c++ "
            "glibc-static libstdc++-static)"
        )
    return [f"/usr/bin/{tool}" for tool in _TOOLS] + [path for pattern in _FOLDERS for path in glob(pattern)]


def warm() -> None:
    """Do nothing, since programs share no objects with the zygote."""


def prepare(path: str) -> None:
    """Do nothing, since the compiler and programs are separate executables."""


def compile_source(source: bytes, path: str) -> bytes:
    """Compile a program to an executable.

    Raises SystemExit if g++ rejects the program, with the reason on stderr; ChildProcessError if SIGKILL ended a
    process of g++; OSError if g++ cannot start.
    """
    plan = _make_plan(path)
    reader, writer = os.pipe()
    compiler = _start(plan.compiler, {1: writer})
    os.close(writer)
    assembler = _start(plan.assembler, {0: reader})
    os.close(reader)
    _wait_for(compiler, assembler)
    _wait_for(_start(plan.linker, {}))
    with open(_EXECUTABLE_FILE, "rb") as executable:
        return executable.read()


@dataclass(frozen=True, slots=True)
class _Plan:
    """The commands that g++ would execute.

    This module executes them itself, to get their exit statuses: g++ reports these only in messages, and a program can
    forge messages of the compiler.
    """

    compiler: list[str]
    assembler: list[str]
    linker: list[str]


def _make_plan(path: str) -> _Plan:
    """Return the commands that g++ would execute for this file. Raises OSError if they are not the expected three."""
    with open(_PLAN_FILE, "wb+") as plan:
        _wait_for(_start([_COMPILER, "-###", *_OPTIONS, path, "-o", _EXECUTABLE_FILE], {2: plan.fileno()}))
        plan.seek(0)
        commands = [shlex.split(line.rstrip(" |")) for line in plan.read().decode().splitlines() if line[:1] == " "]
    os.unlink(_PLAN_FILE)
    try:
        compiler, assembler, linker = commands
        between = assembler[assembler.index("-o") + 1]
    except ValueError:
        raise OSError(f"g++ -### prints {commands}, expected a compiler, an assembler and a linker") from None
    compiler, assembler, linker = (
        [_OBJECT_FILE if word == between else word for word in command] for command in commands
    )
    return _Plan(compiler, ["/usr/bin/as", *assembler[1:]], ["/usr/bin/ld", *linker[1:]])


def _start(command: list[str], streams: dict[int, int]) -> int:
    """Start a command and return its pid. streams: descriptor in the new process -> descriptor in this process."""
    actions = [(os.POSIX_SPAWN_DUP2, source, target) for target, source in streams.items()]
    return os.posix_spawn(command[0], command, os.environ, file_actions=actions)


def _wait_for(*processes: int) -> None:
    """Wait until the processes exit. Raises ChildProcessError if SIGKILL ended one, and SystemExit if any failed."""
    ends = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]
    if -signal.SIGKILL in ends:
        raise ChildProcessError("SIGKILL ended a process of the compiler")
    for end in ends:
        if end < 0:
            os.write(2, f"{signal.Signals(-end).name} ended a process of the compiler\n".encode())
    if any(ends):
        raise SystemExit(1)


def run(artifact: int, arguments: list[str]) -> int:
    """Replace this process by the program. Returns an exit status only if that fails, with the reason on stderr."""
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    if hard == resource.RLIM_INFINITY:  # with any other limit, each thread's stack would have that size
        resource.setrlimit(resource.RLIMIT_STACK, (hard, hard))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it; endless output would then end only by timeout
    try:
        os.execve(artifact, [_EXECUTABLE_FILE, *arguments], os.environ)
    except OSError as error:
        os.write(2, f"the executable cannot start: {error}".encode())
    return 127
