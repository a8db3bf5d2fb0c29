"""A process that compares answers cannot reach anything else on the machine."""

import json
import os
import socket
import subprocess
import sys

from math_answers import children, comparing_process, needs_math_verify

from rewards.mathematics.reward import MathReward


@needs_math_verify
def test_the_comparing_process_has_no_environment_no_files_of_its_parent_and_no_capabilities(monkeypatch, tmp_path):
    monkeypatch.setenv("SECRET", "of the caller")
    before = children()
    with MathReward(1) as reward, (tmp_path / "held").open("w") as held:
        os.set_inheritable(held.fileno(), True)
        server = comparing_process(reward, before)
        assert b"SECRET" not in (server / "environ").read_bytes()
        opened = {os.readlink(link) for link in (server / "fd").iterdir()}
        assert all(name.startswith("pipe:") or name == "/dev/null" for name in opened)
        status = dict(line.split(":\t", 1) for line in (server / "status").read_text().splitlines() if ":\t" in line)
        assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0
        assert status["NoNewPrivs"] == "1"


ATTEMPTS = """
import json, os, signal, socket, sys
sys.path[:] = json.loads(sys.argv[1])
from rewards.mathematics.isolation import confine
missing = confine([], 1024)
done = []
def attempt(name, do):
    try:
        do()
    except OSError:
        return
    done.append(name)
attempt("files", lambda: open("/etc/passwd").close())
attempt("files", lambda: open(sys.argv[2], "r+").close())
attempt("files", lambda: os.listdir("/"))
attempt("network", lambda: socket.create_connection(("127.0.0.1", int(sys.argv[3])), 5))
attempt("network", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9)))
attempt("processes", lambda: os.kill(int(sys.argv[4]), 0))
attempt("rights", lambda: os.setuid(1))
print(json.dumps([missing, done, os.environ.get("SECRET")]), flush=True)
"""


def test_a_confined_process_reaches_no_file_no_network_and_no_other_process(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("x")
    secret.chmod(0o666)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        arguments = [json.dumps(sys.path), str(secret), str(port), str(os.getpid())]
        command = [sys.executable, "-P", "-c", ATTEMPTS, *arguments]
        output = subprocess.run(command, env={}, cwd="/", capture_output=True, text=True, check=True).stdout
    missing, done, _ = json.loads(output)
    assert set(done) <= set(missing), output
    if os.geteuid() == 0:
        assert {"network", "processes"}.isdisjoint(missing)
