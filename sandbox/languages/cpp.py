"""C++17, compiled by g++ inside the sandbox. The artifact is a static executable: it starts in half the time of one
that must find its libraries, and needs none in the file system of programs.
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
# TESTSYS: checkers made with testlib.h then tell partial scores from their other exit codes.
_OPTIONS = "-std=c++17 -O2 -static -pipe -fmax-errors=20 -DONLINE_JUDGE -DTESTSYS -fno-use-linker-plugin".split()
_TOOLS = "g++ as ld".split()
_FOLDERS = "/usr/include /usr/local/include /usr/lib/gcc /usr/libexec/gcc /usr/lib/*-linux-gnu* /usr/lib64".split()
_EXECUTABLE_FILE = "solution"
_OBJECT_FILE = "solution.o"
_PLAN_FILE = "plan"


def toolchain() -> list[str]:
    """Raises LookupError where there is no g++."""
    missing = [tool for tool in _TOOLS if shutil.which(tool, path="/usr/bin") is None]
    if missing:
        raise LookupError(
            f"no {' and no '.join(missing)} in /usr/bin; type: apt install g++ (Fedora: gcc-c++ "
            "glibc-static libstdc++-static)"
        )
    return [f"/usr/bin/{tool}" for tool in _TOOLS] + [path for pattern in _FOLDERS for path in glob(pattern)]


def warm() -> None:
    """Nothing, and"""


def prepare(path: str) -> None:
    """nothing: compiler and programs are processes of their own."""


def compile_source(source: bytes, path: str) -> bytes:
    """Raises SystemExit where g++ refuses the program; what it says is on stderr. ChildProcessError where a part of it
    was killed, OSError where it cannot start."""
    plan = _plan(path)
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
    """What g++ would execute. We do it ourselves: how a part has ended is then measured, while of what g++ says of its
    parts, a program can have any word said in a message of its own."""

    compiler: list[str]
    assembler: list[str]
    linker: list[str]


def _plan(path: str) -> _Plan:
    with open(_PLAN_FILE, "wb+") as said:
        _wait_for(_start([_COMPILER, "-###", *_OPTIONS, path, "-o", _EXECUTABLE_FILE], {2: said.fileno()}))
        said.seek(0)
        commands = [shlex.split(line.rstrip(" |")) for line in said.read().decode().splitlines() if line[:1] == " "]
    os.unlink(_PLAN_FILE)
    try:
        compiler, assembler, linker = commands
        between = assembler[assembler.index("-o") + 1]
    except ValueError:
        raise OSError(f"g++ names other steps than compiler, assembler and linker: {commands}") from None
    compiler, assembler, linker = (
        [_OBJECT_FILE if word == between else word for word in words] for words in (compiler, assembler, linker)
    )
    return _Plan(compiler, ["/usr/bin/as", *assembler[1:]], ["/usr/bin/ld", *linker[1:]])


def _start(command: list[str], streams: dict[int, int]) -> int:
    """streams: descriptor of the process -> ours."""
    actions = [(os.POSIX_SPAWN_DUP2, ours, its) for its, ours in streams.items()]
    return os.posix_spawn(command[0], command, os.environ, file_actions=actions)


def _wait_for(*processes: int) -> None:
    """Raises ChildProcessError if one of them was killed, SystemExit if one failed."""
    ends = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]
    if -signal.SIGKILL in ends:
        raise ChildProcessError("a part of the compiler was killed")
    for end in ends:
        if end < 0:
            os.write(2, f"a part of the compiler ended by {signal.Signals(-end).name}\n".encode())
    if any(ends):
        raise SystemExit(1)


def run(artifact: int, arguments: list[str]) -> int:
    """Become the program; returns, with what is wrong on stderr, only if that fails."""
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    if hard == resource.RLIM_INFINITY:  # or libc gives each thread a stack as huge as the main one's limit
        resource.setrlimit(resource.RLIMIT_STACK, (hard, hard))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it: a flood of output would burn its whole time
    try:
        os.execve(artifact, [_EXECUTABLE_FILE, *arguments], os.environ)
    except OSError as error:
        os.write(2, f"the executable cannot be started: {error}".encode())
    return 127
