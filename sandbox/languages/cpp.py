"""C++17, compiled by g++ inside the sandbox. The artifact is a static executable: it starts in half the time of one
that must find its libraries, and needs none in the file system of programs.
"""

import os
import resource
import shutil
import signal
from glob import glob

SOURCE_FILE = "solution.cpp"
SELF_TEST = "#include <iostream>\nint main() { int a, b; std::cin >> a >> b; std::cout << a + b; }"
EXECUTABLE = True
CALLABLE = False

_COMPILER = "/usr/bin/g++"
# TESTSYS: checkers made with testlib.h then tell partial scores from their other exit codes.
_OPTIONS = "-std=c++17 -O2 -static -pipe -fmax-errors=20 -DONLINE_JUDGE -DTESTSYS".split()
_TOOLS = "g++ as ld".split()
_FOLDERS = "/usr/include /usr/local/include /usr/lib/gcc /usr/libexec/gcc /usr/lib/*-linux-gnu* /usr/lib64".split()
_EXECUTABLE_FILE = "solution"


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
    """Raises SystemExit where g++ refuses the program; what it says is on stderr. ChildProcessError where it was
    killed, OSError where it cannot start."""
    pid = os.posix_spawn(_COMPILER, [_COMPILER, *_OPTIONS, path, "-o", _EXECUTABLE_FILE], os.environ)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status == -signal.SIGKILL:
        raise ChildProcessError("the compiler was killed")
    if status != 0:
        raise SystemExit(1)
    with open(_EXECUTABLE_FILE, "rb") as executable:
        return executable.read()


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
