"""Languages, one file each (python, cpp). The file's name is the language's name in Program.

The interface of a language:
    SOURCE_FILE                                     name of a program's source file
    SELF_TEST                                       a program that reads two integers and prints their sum
    EXECUTABLE                                      whether the artifact is an executable, not one to interpret
    CALLABLE                                        whether a suite can call single functions of its programs
    toolchain() -> list of str                      host paths for compilation only; raises LookupError, with the name
                                                    of the package, if a compiler is missing
    may_share_process(artifact) -> bool             if CALLABLE: whether calls of a compiled program, by its descriptor,
                                                    may share a process
Functions inside the jail: warm and prepare run in the zygote, before any program; the others run in a child for one
run, never in a trusted process.
    warm()                                          initializes the shared state of all programs
    prepare(path)                                   sets the path of the source file of all programs
    compile_source(source, path) -> artifact        compiles a submission; raises SyntaxError or ValueError, or
                                                    SystemExit if the compiler's error is on stderr
    run(artifact, arguments) -> int                 becomes the program; returns its exit status. The artifact of an
                                                    EXECUTABLE language is a descriptor
    call(artifact, entry_point, result_fd) -> int   if CALLABLE: calls a function with the arguments on stdin, and
                                                    writes the encoded value to descriptor `result_fd`
    call_each(artifact, entry_point, result_fd, max_seconds) -> int
                                                    if CALLABLE: calls it for each list of arguments on stdin, for about
                                                    max_seconds at most
    evaluate(artifact, preamble, result_fd) -> int  if CALLABLE: the same for the source of a call on stdin; `preamble`
                                                    is the artifact of code that runs first
    serve(artifact, preamble, names) -> int         if CALLABLE: serves requests of connected tests on stdin and stdout
    run_tests(artifact, preamble, statements, names, classes, report_fd) -> int
                                                    if CALLABLE: runs tests of a submission connected to stdin and
                                                    stdout
    warm_for_tests()                                if CALLABLE: preloads modules for tests, in a zygote for referees
"""

import os
from functools import cache
from importlib import import_module
from types import ModuleType


@cache
def list_names() -> tuple[str, ...]:
    """Return the sorted names of all languages."""
    # A jail has .pyc files only.
    files = (entry.name for entry in os.scandir(__path__[0]) if entry.name.endswith((".py", ".pyc")))
    return tuple(sorted(name.partition(".")[0] for name in files if not name.startswith("_")))


def load(name: str) -> ModuleType:
    """Return the module of a language. Raises ValueError, with the choices, for an unknown one."""
    if name not in list_names():
        raise ValueError(f"unknown language {name!r}; choose one of {', '.join(list_names())}")
    return import_module(f"{__name__}.{name}")
