"""The process that parses a file can do nothing else, even if the file has taken it over."""

import signal
import subprocess
import sys

_CODE = """
import ctypes, mmap, os, resource, signal, socket, sys, threading, time
from train.swarm.files import confinement

parent = os.getppid()
confinement.apply_limits(max_written_bytes=1000)
confinement.enter_seccomp()

def maps_code():
    ctypes.CDLL(None).mmap.restype = ctypes.c_long
    if ctypes.CDLL(None).mmap(None, 4096, 4, 0x22, -1, 0) == -1:
        raise OSError

ATTEMPTS = {
    "reads a file": lambda: open("/etc/passwd"),
    "lists a folder": lambda: os.listdir("/"),
    "opens a socket": lambda: socket.socket(socket.AF_INET),
    "opens a local socket": lambda: socket.socket(socket.AF_UNIX),
    "makes a pipe": lambda: os.pipe(),
    "forks": lambda: os.fork(),
    "runs a program": lambda: os.execv("/bin/true", ["true"]),
    "kills its parent": lambda: os.kill(parent, 0),
    "sets a limit": lambda: resource.setrlimit(resource.RLIMIT_CPU, (100, 100)),
    "leaves its folder": lambda: os.chdir("/tmp"),
    "makes a file in memory": lambda: os.memfd_create("more"),
    "maps code": maps_code,
    "writes much": lambda: [os.write(3, b"x" * 999) for _ in range(3)],
    "takes much memory": lambda: bytearray(2**30),
    "starts a thread": lambda: threading.Thread(target=time.sleep, args=(0,)).start(),
}
for name, attempt in ATTEMPTS.items():
    try:
        attempt()
    except (OSError, MemoryError, RuntimeError, ValueError):
        continue
    os.write(2, name.encode() + b"\\n")
while True:
    pass
"""


def test_a_confined_process_reaches_nothing_and_ends() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import os; os.dup2(os.memfd_create('output'), 3)\n" + _CODE],
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    assert done.stderr == b""
    assert done.returncode == -signal.SIGXCPU
