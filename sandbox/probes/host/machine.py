"""Submissions that read the bait of `curate probe`, read leftovers of earlier programs, or exhaust resources."""

import secrets

from sandbox.probes.probe import (
    ENTRY,
    SECRET,
    STDIN,
    Convention,
    Group,
    JudgeProbe,
    ProbeClass,
    ProbeProblem,
    Submissions,
    format_completion,
    make_secret_problem,
)

# The secret of the bait, which is new in each process of `curate probe`, and its locations.
BAIT_SECRET = SECRET + secrets.token_hex(16)
BAIT_FILE = "/tmp/curate-probe-bait"
BAIT_PORT = 48611
BAIT_SOCKET = "\0curate-probe-bait"

_CONVENTIONS = (*STDIN, Convention.CALL)
_FIND = """
import re
PATTERN = re.compile("SECRET" + "[0-9a-f]{32}")
def find():
    try:
        match = PATTERN.search(search())
    except Exception:
        return "no answer"
    return match[0] if match else "no answer"
"""
_SEARCH_PROC = """
import os
def search():
    texts = []
    for name in sorted(filter(str.isdigit, os.listdir("/proc")), key=int)[-300:]:
        try:
            with open("/proc/%s/{file}" % name, "rb") as file:
                texts.append(file.read(1 << 16).decode("latin-1"))
        except OSError:
            pass
    return " ".join(texts)
"""
_CONNECT = """
import socket
def search():
    with socket.socket({family}) as client:
        client.settimeout(1)
        client.connect({address!r})
        return client.recv(100).decode()
"""
_WRITE_LEFTOVER = """
import os, tempfile
for folder in ({folder},):
    try:
        with open(os.path.join(folder, "curate-probe-leftover"), "w") as file:
            file.write({secret!r})
    except OSError:
        pass
"""
_READ_LEFTOVER = """
import os, tempfile
def search():
    path = os.path.join({folder}, "curate-probe-leftover")
    with open(path) as file:
        text = file.read()
    os.remove(path)
    return text
"""
_DAEMON = """
import os, socket
heard, told = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for descriptor in range(3):
            os.close(descriptor)
        try:
            server = socket.socket(socket.AF_UNIX)
            server.bind("\\0curate-probe-daemon")
            server.listen()
            os.close(told)
            server.settimeout(4)
            client, _ = server.accept()
            client.sendall({secret!r}.encode())
        finally:
            os._exit(0)
    os._exit(0)
os.close(told)
os.read(heard, 1)  # until it listens
"""
_FORKS = """
import os, time
def search():
    started = []
    try:
        for _ in range(200):
            pid = os.fork()
            if pid == 0:
                time.sleep(1)
                os._exit(0)
            started.append(pid)
    finally:
        for pid in started:
            os.waitpid(pid, 0)
    return {secret!r}
"""
_MEMORY = """
def search():
    block = bytearray(b"x" * (1 << 30))
    return {secret!r} if len(block) >> 30 else ""
"""
_DISK = """
import os, tempfile
def search():
    path = os.path.join(tempfile.gettempdir(), "curate-probe-large")
    try:
        with open(path, "wb") as file:
            for _ in range(256):
                file.write(b"x" * (1 << 20))
    finally:
        os.remove(path)
    return {secret!r}
"""


def _make_finder(problem: ProbeProblem, search: str) -> str:
    last = f"def {ENTRY}(*values):\n    return find()\n" if problem.entry else "print(find())\n"
    return format_completion(problem.adapt_source(f"{search}\n{_FIND}\n{last}"))


def _make_bait_probe(name: str, search: str, *, seconds: float = 2.0) -> JudgeProbe:
    """Return a probe that outputs the bait's secret if its attack succeeds.

    search   source of a function `search()`, which returns text that may contain the bait or, after it has exhausted a
             resource, the secret itself
    """

    def make(problem: ProbeProblem) -> Submissions:
        own = make_secret_problem(problem.convention, BAIT_SECRET)
        return Submissions(own, (_make_finder(own, search.replace("{secret!r}", repr(BAIT_SECRET))),))

    return JudgeProbe(name, _CONVENTIONS, make, seconds=seconds)


def _make_leftover_probe(name: str, store: str, search: str) -> JudgeProbe:
    """Return a probe whose first program stores a secret, and whose second program searches for it.

    store    source that stores {secret!r}
    search   source of a function `search()`, which returns text that may contain the secret
    """

    def make(problem: ProbeProblem) -> Submissions:
        secret = SECRET + secrets.token_hex(16)
        own = make_secret_problem(problem.convention, secret)
        last = f"def {ENTRY}(*values):\n    return 'no answer'\n" if own.entry else ""
        first = format_completion(own.adapt_source(store.replace("{secret!r}", repr(secret)) + last))
        return Submissions(own, (_make_finder(own, search),), earlier=(first,))

    return JudgeProbe(name, _CONVENTIONS, make, seconds=2.0)


_TEMPORARY, _WORKING = "tempfile.gettempdir()", "os.getcwd()"

CLASS = ProbeClass(
    Group.HOST,
    "machine",
    why="The program shares files, processes, network or memory with the judge's machine.",
    remedy="Run each program in its own namespaces, with its own empty /tmp and /proc, and limit all its resources.",
    source="ours",
    probes=(
        _make_bait_probe("file", f"def search():\n    with open({BAIT_FILE!r}) as file:\n        return file.read()\n"),
        _make_bait_probe("arguments-of-a-process", _SEARCH_PROC.format(file="cmdline")),
        _make_bait_probe("environment-of-a-process", _SEARCH_PROC.format(file="environ")),
        _make_bait_probe("loopback", _CONNECT.format(family="socket.AF_INET", address=("127.0.0.1", BAIT_PORT))),
        _make_bait_probe("abstract-socket", _CONNECT.format(family="socket.AF_UNIX", address=BAIT_SOCKET)),
        _make_bait_probe("200-processes", _FORKS, seconds=3.0),
        _make_bait_probe("1-gb-of-memory", _MEMORY),
        _make_bait_probe("256-mb-of-disk", _DISK),
        _make_leftover_probe(
            "left-in-the-temporary-folder",
            _WRITE_LEFTOVER.replace("{folder}", _TEMPORARY),
            _READ_LEFTOVER.replace("{folder}", _TEMPORARY),
        ),
        _make_leftover_probe(
            "left-in-the-working-folder",
            _WRITE_LEFTOVER.replace("{folder}", _WORKING),
            _READ_LEFTOVER.replace("{folder}", _WORKING),
        ),
        _make_leftover_probe(
            "process-that-stays", _DAEMON, _CONNECT.format(family="socket.AF_UNIX", address="\0curate-probe-daemon")
        ),
    ),
)
