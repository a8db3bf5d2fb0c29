"""Languages, one file each. The file's name is the language's name in Program.

A language is four functions that run inside the jail: the first in the zygote, before any program; the others in a
child forked for one run, never in a trusted process.
    prepare(path) -> None                          once; programs will find their text at `path`
    compile_source(source, path) -> artifact       once for a submission; raises SyntaxError or ValueError
    run(artifact) -> int                           becomes the program; returns its exit status
    call(artifact, entry_point, returned) -> int   calls one function of it with the arguments on stdin and writes
                                                   the encoded value to descriptor `returned`
"""

import os
from functools import cache


@cache
def names() -> tuple[str, ...]:
    """Names of all languages, sorted."""
    files = (entry.name for entry in os.scandir(__path__[0]))
    return tuple(sorted(name[:-3] for name in files if name.endswith(".py") and not name.startswith("_")))


def check(name: str) -> None:
    """Raises ValueError, naming the choices, where there is no such language."""
    if name not in names():
        raise ValueError(f"no language {name!r}; choose one of {', '.join(names())}")
