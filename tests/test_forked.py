"""Children of the zygote behave as fresh interpreters do."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import forked
import psutil
import pytest

ROOT = Path(__file__).parents[1]

PROGRAMS = {
    "output": "import sys; print('out'); print('err', file=sys.stderr)",
    "input": "print(input() * 2)",
    "arguments": "import sys; print(sys.argv, sys.executable)",
    "exit status": "raise SystemExit(3)",
    "exit message": "raise SystemExit('gone')",
    "traceback": "def half(n):\n    return n / 0\nhalf(1)",
    "traceback with a cause": "try:\n    1 / 0\nexcept ZeroDivisionError:\n    {}['a']",
    "atexit": "import atexit\natexit.register(print, 'bye')\nraise SystemExit(2)",
    "threads": "import threading, time\nthreading.Timer(0.01, print, ['late']).start()",
    "temporary folder": "import tempfile, os\nkept = tempfile.TemporaryDirectory()\nprint(os.listdir(kept.name))",
    "os._exit": "import os; print('lost'); os._exit(5)",
    "killed": "import os; os.kill(os.getpid(), 9)",
    "terminated": "import os; os.kill(os.getpid(), 15)",
    "interrupted": "import os, time; os.kill(os.getpid(), 2); time.sleep(60)",
    "handlers": "import signal; print({s: str(signal.getsignal(s)) for s in signal.valid_signals()})",
    "folder and group": "import os; print(os.getcwd(), os.getpid() == os.getpgid(0) == os.getsid(0), os.umask(0))",
    "environment": "import os; print(os.environ['NAME'], os.environ.get('PYTEST_CURRENT_TEST'))",
    "warnings": "import warnings; warnings.warn('old', stacklevel=1)",
    "warning filters": "import sys, warnings; print(sys.warnoptions); warnings.warn('old', stacklevel=1)",
    "streams": "import sys; print(*(getattr(s, a) for s in (sys.stdout, sys.stderr) for a in "
    "('encoding', 'errors', 'line_buffering')))",
    "descriptors": "import os; print(sorted(os.listdir('/dev/fd'))[:4])",
    "main": "import sys; print(__name__, vars(sys.modules['__main__'])['__name__'], globals().get('__file__'))",
    "spawned": "import multiprocessing as m, os\nif __name__ == '__main__':\n"
    "    with m.get_context('spawn').Pool(1) as pool:\n        print(pool.map(abs, [-1]))",
}


def outcome(start: object, *command: str, **options: object) -> tuple[int, str, str]:
    done = start([*command], capture_output=True, text=True, **options)  # type: ignore[operator]
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_child_does_what_a_fresh_interpreter_does(name: str, tmp_path: Path) -> None:
    options = {
        "input": "word\n",
        "cwd": tmp_path,
        "env": {"NAME": "value", "PATH": os.environ["PATH"]},
        "start_new_session": True,
    }
    words = ["-W", "error::UserWarning"] if name == "warning filters" else []
    command = [sys.executable, *words, "-c", PROGRAMS[name], "one", "two"]
    assert outcome(forked.run, *command, **options) == outcome(subprocess.run, *command, **options)


def test_a_module_and_a_script_have_their_arguments_and_import_path(tmp_path: Path) -> None:
    (tmp_path / "shown.py").write_text(
        "import sys\nprint(__name__, __file__, __spec__ and __spec__.name, sys.argv, sys.path)\n"
    )
    (tmp_path / "folder").mkdir()
    for words in (["-m", "shown"], ["shown.py", "x"], ["-m", "json.tool", "--help"], ["-m", "absent"], ["absent.py"]):
        for changed in ({}, {"PYTHONSAFEPATH": "1"}, {"PYTHONPATH": f"folder:{tmp_path}"}):
            options = {"cwd": tmp_path, "env": {"PATH": os.environ["PATH"]} | changed}
            command = [sys.executable, *words]
            assert outcome(forked.run, *command, **options) == outcome(subprocess.run, *command, **options)


@pytest.mark.parametrize(
    "words", ["--version", "--help", "stats --help", "judge absent.jsonl", "train absent.toml", "x"]
)
def test_the_command_prints_what_the_installed_one_prints(words: str, tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("curate")), *words.split()]
    expected = outcome(subprocess.run, *command, cwd=tmp_path)
    assert outcome(forked.run, *command, cwd=tmp_path) == expected
    module = outcome(forked.run, sys.executable, "-m", "cli", *words.split(), cwd=tmp_path, env=_with_root())
    assert module == expected


def _with_root() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT)}


def test_what_is_imported_is_there_and_its_random_numbers_differ() -> None:
    environment = {"PATH": os.environ["PATH"]}
    code = "import sys, random, numpy, uuid\n"
    code += "print('torch' in sys.modules, random.random(), numpy.random.rand(), uuid.uuid4())"
    first, second = (outcome(forked.run, sys.executable, "-c", code, env=environment)[1].split() for _ in range(2))
    assert first[0] == second[0] == "True"
    assert not set(first[1:]) & set(second[1:])


def test_an_interpreter_is_fresh_where_its_start_matters() -> None:
    shown = "import sys; print('torch' in sys.modules)"
    for words, changed in (
        ("-P", {}),
        ("-W error", {"HF_ENDPOINT": "http://127.0.0.1:9"}),
        ("", {"PYTHONHASHSEED": "0"}),
    ):
        done = forked.run(
            [sys.executable, *words.split(), "-c", shown], env=os.environ | changed, stdout=subprocess.PIPE
        )
        assert done.stdout == b"False\n"


def test_the_zygote_has_one_thread_and_knows_nothing_of_the_child() -> None:
    code = "import os; print(os.getpid(), os.getppid(), len(os.listdir(f'/proc/{os.getppid()}/task')))"
    child, zygote, threads = map(int, outcome(forked.run, sys.executable, "-c", code)[1].split())
    assert threads == 1
    assert child not in [process.pid for process in psutil.Process(zygote).children()]


def test_children_run_at_once_and_are_waited_for() -> None:
    children = [
        forked.Popen(
            [sys.executable, "-c", f"print(input() + '{n}')"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for n in range(8)
    ]
    assert [child.poll() for child in children] == [None] * 8
    assert len({child.pid for child in children}) == 8
    assert [child.communicate(f"{n}-")[0] for n, child in enumerate(children)] == [f"{n}-{n}\n" for n in range(8)]
    assert [child.returncode for child in children] == [0] * 8


def test_a_child_is_signalled_and_a_wait_can_time_out() -> None:
    code = "import time\nprint('ready', flush=True)\ntime.sleep(600)"
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        with forked.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            assert child.stdout.readline() == b"ready\n"
            with pytest.raises(subprocess.TimeoutExpired):
                child.wait(0.01)
            child.send_signal(number)
            _, stderr = child.communicate()
        assert child.returncode == -number
        assert (b"KeyboardInterrupt" in stderr) == (number == signal.SIGINT)
        child.kill()  # of a process that has exited: nothing
    with forked.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE) as child:
        assert child.stdout.read() == b""
        os.kill(child.pid, signal.SIGKILL)  # its process id is not free before somebody waits for it
        child.wait()
        assert not psutil.pid_exists(child.pid)


def test_a_group_is_killed_with_its_leader() -> None:
    code = "import os, time\npid = os.fork()\nprint(pid, flush=True) if pid else None\ntime.sleep(600)"
    with forked.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True) as child:
        grandchild = psutil.Process(int(child.stdout.readline()))
        os.killpg(child.pid, signal.SIGKILL)
        assert child.stdout.read() == b""  # so nobody has it open any more
        assert child.wait() == -signal.SIGKILL
    psutil.wait_procs([grandchild])


def test_errors_of_the_start_are_those_of_subprocess(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="absent"):
        forked.run([sys.executable, "-c", ""], cwd=tmp_path / "absent")
    with pytest.raises(subprocess.CalledProcessError):
        forked.run([sys.executable, "-c", "raise SystemExit(1)"], check=True)
    with pytest.raises(subprocess.TimeoutExpired):
        forked.run([sys.executable, "-c", "import time; time.sleep(600)"], timeout=0.01)


def test_nothing_is_left_when_the_run_ends(tmp_path: Path) -> None:
    """Also if the run is killed: here a process that used the zygote and left a child behind."""
    code = f"""
    import os, subprocess, sys, time
    sys.path.insert(0, {str(Path(__file__).parent)!r})
    import forked
    forked.PRELOADS = False
    child = forked.Popen([sys.executable, "-c", "import os, time; print(os.getppid(), flush=True); time.sleep(600)"],
                         stdout=subprocess.PIPE)
    print(os.environ["CURATE_TESTS_RUN"], child.pid, int(child.stdout.readline()), flush=True)
    time.sleep(600)
    """
    environment = {name: value for name, value in os.environ.items() if name != "CURATE_TESTS_RUN"}
    run = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, env=environment)
    with run:
        folder, *pids = run.stdout.readline().split()
        processes = [psutil.Process(int(pid)) for pid in pids]
        run.kill()
        psutil.wait_procs(processes)
    assert not Path(folder.decode()).exists()


def test_the_shell_client_stands_in_for_the_child(tmp_path: Path) -> None:
    """Its streams, folder, environment and exit status are the child's; signals go to the child."""
    client = forked.shell_command(sys.executable)
    shown = "import os; print(input(), os.getcwd(), os.environ['NAME'])"
    script = f'NAME=value {client} -c "{shown}"; {client} -c "raise SystemExit(7)"'
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, input="word\n", text=True, stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (7, f"word {tmp_path} value\n")
    code = "import time, os\nprint(os.getpid(), flush=True)\ntime.sleep(600)"
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        with subprocess.Popen([*client.split(), "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            child = psutil.Process(int(process.stdout.readline()))
            process.send_signal(number)
            process.communicate()
        assert process.returncode == -number
        psutil.wait_procs([child])
