"""Containers judge as this machine does, and whatever dies, hangs or is taken away: no verdict is lost or doubled, and
nothing stays behind. The tests need a real engine; without one they are skipped, unless CURATE_REQUIRE_DOCKER is set.
"""

import contextlib
import gc
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import docker
import pytest
from batch import ADDS, HARMLESS, judged, spread
from echoes import ECHO, LONG, SLEEP
from hostile import attacks, verdicts_of_failure
from waiting import becomes

from sandbox import BackendUnavailable, Case, Judgement, Limits, Program, Sandbox, SandboxError, Suite, Verdict, image
from sandbox.backends import docker as backend
from sandbox.conformance import CHECKS, run
from sandbox.kernel import stale_resources

ROOT = Path(__file__).parents[3]
SLOW = Program("import time\ntime.sleep(0.8)\nprint(input())")
BOOT = Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def echo(number: int) -> Suite:
    return Suite([Case(f"{number}\n", f"{number}\n")], limits=Limits(wall_seconds=30))


def leaves_sockets(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test in which the package docker leaves a socket open after a failed connection, until it is collected."""
    ignoring = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
    return ignoring(pytest.mark.usefixtures("collecting")(test))


@pytest.fixture
def collecting() -> Iterator[None]:
    yield
    gc.collect()


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    missing = ""
    try:
        box = Sandbox(workers=2, backend="docker")
    except BackendUnavailable as error:
        if "CURATE_REQUIRE_DOCKER" in os.environ:
            raise
        missing = str(error)
    if missing:
        with warnings.catch_warnings():  # of the socket that docker's client leaves open
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
        pytest.skip(f"no containers here: {missing}")
    with box:
        yield box


@pytest.fixture(scope="module")
def engine(box: Sandbox) -> Iterator[docker.APIClient]:
    engine = docker.APIClient(version="auto", **docker.utils.kwargs_from_env())
    yield engine
    engine.close()


def containers(engine: docker.APIClient, pid: int) -> set[str]:
    """Return the containers that belong to a Sandbox of this process."""
    everybody = engine.containers(all=True, filters={"label": backend.OWNER_LABEL})
    owner = f"{stale_resources.PREFIX}{pid}-"
    return {container["Id"] for container in everybody if container["Labels"][backend.OWNER_LABEL].startswith(owner)}


def eldest(engine: docker.APIClient, among: set[str]) -> str:
    return next(container["Id"] for container in reversed(engine.containers(all=True)) if container["Id"] in among)


@pytest.fixture
def others(engine: docker.APIClient) -> Iterator[set[str]]:
    """Return the containers that exist already, and check at the end that there are no others."""
    others = containers(engine, os.getpid())
    yield others
    assert containers(engine, os.getpid()) <= others


BY_NAME = {check.name: check for check in CHECKS}


@judged({name: (check.program, check.suite) for name, check in BY_NAME.items()}, quick=spread(BY_NAME, 8))
def test_each_conformance_check_passes(name: str, judgement: Judgement) -> None:
    assert judgement.verdict in BY_NAME[name].expected, judgement


ATTACKS = attacks("python")


@judged(ATTACKS, quick=[], run_all=True, then=(ADDS, HARMLESS))
def test_an_attack_fails_and_the_container_lives_on(name: str, judgement: Judgement) -> None:
    program, suite = ATTACKS[name]
    if judgement.verdict is Verdict.TIME_LIMIT:  # beside a hundred others it may not have got to its attack
        with Sandbox(workers=1, backend="docker") as own:
            judgement = own.judge(program, suite)
    assert {case.verdict.value for case in judgement.cases} <= verdicts_of_failure(program), judgement


def test_all_layers_are_there(box: Sandbox) -> None:
    assert "container" in box.layers
    assert [name for name, how in box.layers.items() if how.startswith("none")] == []


def test_a_program_does_not_see_the_container(box: Sandbox) -> None:
    source = "import os\nprint(*[p for p in ('/.dockerenv', '/etc/hostname', '/opt', '/sys') if os.path.exists(p)])"
    assert box.run(Program(source)).text == "\n"


WITHIN = r"""
import os, socket
status = dict(line.split(":\t") for line in open("/proc/1/status").read().splitlines() if ":\t" in line)
print(status["CapBnd"], status["CapEff"], status["NoNewPrivs"], status["Seccomp"], status["Uid"].split()[1])
print(os.listdir("/sys/class/net"))
for attempt in (
    lambda: open("/written", "w"),
    lambda: open("/opt/curate/sandbox/judge.py", "a"),
    lambda: open("/proc/sys/kernel/hostname", "w"),
    lambda: open("/proc/sysrq-trigger", "w"),
    lambda: open("/proc/kcore", "rb"),
    lambda: open("/sys/fs/cgroup/cgroup.procs", "w"),
    lambda: socket.socket(socket.AF_INET),
    lambda: os.setuid(0),
    lambda: os.mknod("/tmp/device", 0o20666, os.makedev(1, 1)),
    lambda: os.open("/tmp/big", os.O_CREAT | os.O_WRONLY) and [os.write(4, bytes(1 << 20)) for _ in range(300)],
):
    try:
        attempt()
    except OSError:
        continue
    print("possible")
"""


def test_a_container_itself_can_do_next_to_nothing(engine: docker.APIClient, others: set[str]) -> None:
    with Sandbox(workers=1, backend="docker"):
        [ours] = containers(engine, os.getpid()) - others
        host = engine.inspect_container(ours)["HostConfig"]
        assert (host["NetworkMode"], host["ReadonlyRootfs"], host["CapDrop"]) == ("none", True, ["ALL"])
        assert host["Memory"] == host["MemorySwap"] > 0
        assert host["PidsLimit"] > 0
        assert not host["Binds"]
        assert not host.get("Mounts")
        command = engine.exec_create(ours, ["/usr/bin/python3", "-c", WITHIN])["Id"]
        said = engine.exec_start(command).decode().splitlines()
    assert said == [f"{'0' * 16} {'0' * 16} 1 2 65432", "['lo']"]


HARM: dict[str, Callable[[docker.APIClient, str], Any]] = {
    "killed": lambda engine, container: engine.kill(container),
    "removed": lambda engine, container: engine.remove_container(container, force=True),
    "stopped": lambda engine, container: engine.stop(container, timeout=1),  # SIGTERM, then SIGKILL
    "paused": lambda engine, container: engine.pause(container),  # it hangs
}


@pytest.mark.parametrize(
    ("busy", "how"),
    [
        pytest.param(True, "killed", id="busy-killed"),
        pytest.param(False, "removed", id="idle-removed"),
        *(
            pytest.param(busy, how, marks=pytest.mark.thorough, id=f"{'busy' if busy else 'idle'}-{how}")
            for busy in (True, False)
            for how in HARM
            if (busy, how) not in ((True, "killed"), (False, "removed"))
        ),
    ],
)
def test_a_lost_container_costs_no_verdict(engine: docker.APIClient, others: set[str], how: str, busy: bool) -> None:
    with Sandbox(workers=1, backend="docker", silence_seconds=5) as own, ThreadPoolExecutor(1) as thread:
        [first] = containers(engine, os.getpid()) - others
        if busy:
            judging = thread.submit(own.judge, SLOW, echo(7))
            time.sleep(0.2)
        HARM[how](engine, first)
        if not busy:
            judging = thread.submit(own.judge, SLOW, echo(7))
        assert judging.result().accepted
        assert first not in containers(engine, os.getpid())


@pytest.mark.thorough
def test_repeated_deaths_neither_lose_nor_double_verdicts(engine: docker.APIClient, others: set[str]) -> None:
    seen: dict[int, Verdict] = {}
    programs = [ECHO, Program("import time\ntime.sleep(0.05)\nprint(input())"), Program("print(-1)")]
    with Sandbox(workers=2, backend="docker") as own:
        for index, judgement in own.judge_many((programs[n % 3], echo(n)) for n in range(150)):
            assert index not in seen
            seen[index] = judgement.verdict
            if len(seen) % 25 == 0:  # by verdicts, not by the clock: a slow machine must get further, too
                # The eldest, so that each does some work in between: three deaths of one request are an error.
                victim = eldest(engine, containers(engine, os.getpid()) - others)
                with contextlib.suppress(docker.errors.APIError):  # it may be about to go, or to start
                    engine.kill(victim)
    assert len(seen) == 150
    assert {verdict for index, verdict in seen.items() if index % 3 == 2} == {Verdict.WRONG_ANSWER}
    assert {verdict for index, verdict in seen.items() if index % 3 != 2} == {Verdict.ACCEPTED}


def test_closing_ends_what_runs_and_leaves_nothing(engine: docker.APIClient, others: set[str]) -> None:
    own = Sandbox(workers=2, backend="docker")
    with ThreadPoolExecutor(1) as thread:
        judging = thread.submit(own.judge, SLEEP, LONG)
        time.sleep(0.3)
        own.close()
        own.close()
        with pytest.raises(SandboxError, match="closed"):
            judging.result()
    assert containers(engine, os.getpid()) == others
    with pytest.raises(SandboxError, match="closed"):
        own.judge(ECHO, echo(1))


def test_a_forgotten_sandbox_closes_itself(engine: docker.APIClient, others: set[str]) -> None:
    own = Sandbox(workers=1, backend="docker")
    assert containers(engine, os.getpid()) != others
    del own
    assert containers(engine, os.getpid()) == others


CALLER = """
from sandbox import Case, Limits, Program, Sandbox, Suite
busy = Program("import os, time\\nfor _ in range(5):\\n    os.setsid() if os.fork() == 0 else 0\\ntime.sleep(60)")
box = Sandbox(workers=2, backend="docker")
print("ready", flush=True)
for _ in box.judge_many([(busy, Suite([Case("", "")], limits=Limits(wall_seconds=60)))] * 4): pass
"""


@pytest.mark.parametrize(
    ("ready", "delay"),
    [
        pytest.param(True, 0, id="judging"),
        pytest.param(False, 0, id="starting", marks=pytest.mark.thorough),
        pytest.param(True, 0.3, id="judging, later", marks=pytest.mark.thorough),
        pytest.param(False, 0.3, id="starting, later", marks=pytest.mark.thorough),
    ],
)
def test_killing_the_caller_leaves_nothing(engine: docker.APIClient, ready: bool, delay: float) -> None:
    caller = subprocess.Popen([sys.executable, "-c", CALLER], stdout=subprocess.PIPE, cwd=ROOT)
    assert caller.stdout is not None
    if ready:
        caller.stdout.readline()
    else:
        assert becomes(lambda: bool(containers(engine, caller.pid)))
    time.sleep(delay)
    caller.kill()
    caller.wait()
    caller.stdout.close()
    with Sandbox(workers=1, backend="docker"):  # which sweeps what was made but not yet started
        assert becomes(lambda: not containers(engine, caller.pid))


def test_containers_of_dead_processes_are_swept_and_those_of_living_ones_stay(engine: docker.APIClient) -> None:
    name = "from sandbox.kernel.stale_resources import make_owner_tag; print(make_owner_tag())"
    dead = subprocess.run([sys.executable, "-c", name], capture_output=True, text=True, check=True, cwd=ROOT)
    owners = {"of the dead": dead.stdout.strip(), "of the living": stale_resources.make_owner_tag()}
    made = {
        who: engine.create_container(image.TAG, labels={backend.OWNER_LABEL: owner, backend.MACHINE_LABEL: BOOT})["Id"]
        for who, owner in owners.items()
    }
    try:
        with Sandbox(workers=1, backend="docker"):
            left = {container["Id"] for container in engine.containers(all=True)}
        assert [who for who, container in made.items() if container in left] == ["of the living"]
    finally:
        engine.remove_container(made["of the living"])


def test_two_sandboxes_side_by_side(box: Sandbox) -> None:
    with Sandbox(workers=1, backend="docker") as other, ThreadPoolExecutor(4) as threads:
        turns = [(box, other)[n % 2] for n in range(40)]
        verdicts = list(threads.map(lambda turn: turn[1].judge(ECHO, echo(turn[0])).verdict, enumerate(turns)))
    assert set(verdicts) == {Verdict.ACCEPTED}


def test_a_container_grows_for_a_suite_that_needs_more(engine: docker.APIClient, others: set[str]) -> None:
    with Sandbox(workers=1, backend="docker") as own:
        [ours] = containers(engine, os.getpid()) - others
        for memory_mb in (300, 9000, 500):
            assert own.judge(ECHO, Suite([Case("7\n", "7\n")], limits=Limits(memory_mb=memory_mb))).accepted
            host = engine.inspect_container(ours)["HostConfig"]
            assert host["Memory"] == host["MemorySwap"] > memory_mb << 20


def test_more_processes_than_a_container_may_have_are_refused(box: Sandbox) -> None:
    with pytest.raises(ValueError, match="processes must be at most"):
        box.judge(ECHO, Suite([Case("1", "1")], limits=Limits(processes=100_000)))
    assert box.judge(ECHO, echo(1)).accepted


@pytest.mark.parametrize("hidden", ["namespaces", "parts of /proc"])
def test_a_container_that_refuses_namespaces_isolates_by_landlock_and_says_why(
    box: Sandbox, monkeypatch: pytest.MonkeyPatch, hidden: str
) -> None:
    def plain(memory_mb: int, *, apparmor: bool) -> dict[str, Any]:
        """Start a container with default options, which refuse namespaces, or a new /proc in them."""
        config = ours(memory_mb, apparmor=apparmor)
        if hidden == "namespaces":
            return config | {"SecurityOpt": ["no-new-privileges"]}
        return {key: value for key, value in config.items() if key not in ("MaskedPaths", "ReadonlyPaths")}

    ours = backend.make_host_config
    monkeypatch.setattr(backend, "make_host_config", plain)
    with Sandbox(workers=1, backend="docker") as other:
        assert other.level == "landlock"
        refused = "unshare: Operation not permitted" if hidden == "namespaces" else "/proc: Operation not permitted"
        assert refused in other.layers["stronger levels"]
        assert {name for name, how in other.layers.items() if how.startswith("none")} <= {"numpy"}
        assert not [finding for finding in run(other) if not finding.passed]


def test_a_missing_image_is_an_error_that_says_what_to_type(box: Sandbox) -> None:
    with pytest.raises(BackendUnavailable, match="no image curate-nothing; type: make sandbox-image"):
        Sandbox(workers=1, backend="docker", image="curate-nothing")


def test_an_image_of_another_version_is_an_error_that_says_what_to_type(engine: docker.APIClient) -> None:
    nothing = io.BytesIO()
    tarfile.open(fileobj=nothing, mode="w").close()
    engine.import_image_from_data(nothing.getvalue(), repository="curate-old", changes=[f"LABEL {image.LABEL}=old"])
    try:
        with pytest.raises(BackendUnavailable, match="another version of the sandbox; type: make sandbox-image"):
            Sandbox(workers=1, backend="docker", image="curate-old")
    finally:
        engine.remove_image("curate-old")


@leaves_sockets
def test_a_missing_engine_is_an_error_that_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    with pytest.raises(BackendUnavailable, match="no Docker engine responds.*docker.io"):
        Sandbox(backend="docker")


def test_a_missing_package_is_an_error_that_says_what_to_type() -> None:
    source = (
        "import sys; sys.modules['docker'] = None\n"
        "from sandbox import BackendUnavailable, Sandbox\n"
        "try: Sandbox(backend='docker')\nexcept BackendUnavailable as error: print(error)"
    )
    said = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True, cwd=ROOT)
    assert "type: pip install 'docker>=" in said.stdout


class Engine:
    """A Docker engine of our own, which tests may stop and kill."""

    def __init__(self, folder: Path) -> None:
        self.host = f"unix://{folder}/engine"
        self._folder = folder
        self.start()

    def start(self) -> None:
        with (self._folder / "log").open("a") as log:
            self._process = subprocess.Popen(
                # In a network namespace of its own: an engine removes the bridge of another.
                ["unshare", "--net", "dockerd", "--host", self.host, "--bridge=none", "--iptables=false"]
                + [f"--{name}={self._folder}/{name}" for name in ("data-root", "exec-root", "pidfile")],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        assert becomes(lambda: self.command("version").returncode == 0), (self._folder / "log").read_text()[-3000:]

    def command(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
        command = ["timeout", "120", "docker", "--host", self.host, *arguments]
        return subprocess.run(command, capture_output=True, check=False, **options)

    def take_image(self, engine: docker.APIClient) -> None:
        """Load the image of the other engine without the compiler: Python programs do not need that half of it."""
        config = engine.inspect_image(image.TAG)["Config"]
        changes = [
            f"LABEL {image.LABEL}={config['Labels'][image.LABEL]}",
            f"ENTRYPOINT {json.dumps(config['Entrypoint'])}",
        ]
        without = [f"--exclude=./{name}" for name in ("usr/include", "usr/lib/gcc", "usr/share", "var", "*.a")]
        packing = ["docker", "run", "--rm", "--network=none", "--user=0", "--entrypoint=tar", image.TAG]
        packing += ["--create", "--one-file-system", *without, "--directory=/", "."]
        with subprocess.Popen(packing, stdout=subprocess.PIPE) as tar:
            options = [word for change in changes for word in ("--change", change)]
            assert self.command("import", *options, "-", image.TAG, stdin=tar.stdout).returncode == 0

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def stop(self) -> None:
        self._process.terminate()
        self._process.send_signal(signal.SIGCONT)  # a test that failed may have stopped it
        self._process.wait(120)

    def remove(self) -> None:
        self.stop()
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            if line.split()[4].startswith(f"{self._folder}/"):
                subprocess.run(["umount", line.split()[4]], check=True)
        shutil.rmtree(self._folder)


@pytest.fixture
def second(engine: docker.APIClient) -> Iterator[Engine]:
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        assert "CURATE_REQUIRE_DOCKER" not in os.environ, "a second engine needs root and dockerd"
        pytest.skip("a second engine needs root and dockerd")
    folder = Path(tempfile.mkdtemp(prefix="engine-"))  # short: paths of sockets are
    second = Engine(folder)
    try:
        second.take_image(engine)
        yield second
    finally:
        second.remove()


@leaves_sockets
@pytest.mark.thorough
def test_an_engine_that_stops_or_hangs_is_an_error_and_one_that_comes_back_is_used_again(
    second: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", second.host)
    with Sandbox(workers=1, backend="docker", silence_seconds=4) as own, ThreadPoolExecutor(1) as thread:
        for harm, repair in (
            (lambda: second.signal(signal.SIGSTOP), lambda: second.signal(signal.SIGCONT)),
            (second.stop, second.start),
        ):
            assert own.judge(ECHO, echo(1)).accepted
            judging = thread.submit(own.judge, SLEEP, LONG)
            time.sleep(0.5)
            harm()
            for answer in (judging.result, lambda: own.judge(ECHO, echo(2))):
                with pytest.raises(SandboxError, match="no Docker engine responds"):
                    answer()
            repair()
        assert own.judge(ECHO, echo(3)).accepted
    assert second.command("ps", "--all", "--quiet").stdout == b""
