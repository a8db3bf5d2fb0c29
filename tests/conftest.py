"""Fixtures that many tests share because they are slow to create: a Ray cluster of several nodes on this machine, and a
tiny model that was taught to answer some problems, in a folder and behind a server."""

import faulthandler
import fcntl
import gc
import os
import re
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from run_folder import locked, make_once, run_folder
from shared_images import share_images

if TYPE_CHECKING:
    from browser import Browser

# As many processes test at the same time as there are cores. If torch had a thread for each core in all of them, these
# threads would wait for each other most of the time. It is set before torch is imported, here and in what tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")

run_folder()  # of the controller, whose processes inherit it

# Files that take a minute or more. They come first, so that no process waits at the end for one that has just begun.
# Of the first four, one alone needs the tiny model, for which the others would wait until it is trained.
_LONGEST = (
    "test_runs",
    "test_docs",
    "test_docker",
    "test_resume",
    "test_learning",
    "test_killed_roles",
    "test_whole_swarm",
    "test_ray",
    "test_difficulty_command",
    "test_rollout_command",
    "test_nothing_is_lost",
    "test_landlock",
    "test_soak",
    "test_survival",
    "test_service",
    "test_http_backend",
    "test_ranks",
    "test_verification",
    "test_memory_estimate",
    "test_torchrun",
    "test_evaluated_runs",
    "test_asynchronous_runs",
    "test_evaluate",
    "test_vllm_sampler",
    "test_controller_schedules",
    "test_hostile_clients",
)

_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",  # whatever other Ray clusters on this machine use
    "RAY_enable_worker_prestart": "0",
    "RAY_prestart_worker_first_driver": "0",
}


# What skipped tests want, by a pattern of their reasons, and how to get it.
_WANTED = {
    "containers|dockerd": "a Docker engine and `make sandbox-image`",
    "browser": "Chromium: apt-get install chromium",
    "curl": "curl: apt-get install curl",
    "nginx": "nginx: apt-get install nginx-light",
    r"g\+\+": "g++: apt-get install g++",
    "real data|conformance kit": "the real data: a folder `shared` beside the checkout",
    r"requirements-exports\.txt": "trainers: pip install --no-deps -r tests/requirements-exports.txt",
    "not installed|could not import": "packages: make .venv/train",
}

# No deadlines: property tests check results, and must not fail because a busy machine is slow. The examples are the
# same in each run, so that only a change makes a test fail.
_REPEATABLE = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", _REPEATABLE, max_examples=20)
settings.register_profile("thorough", _REPEATABLE, max_examples=100)


def pytest_configure(config: pytest.Config) -> None:
    share_images()
    settings.load_profile("quick" if "not thorough" in config.option.markexpr else "thorough")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first, then those with many tests, then those whose tests are all quiet, so that few
    workers wait for them. `make test-all` hands out files in this order."""
    n_tests = Counter(item.path for item in items)
    n_quiet = Counter(item.path for item in items if _is_quiet(item))
    places = {name: place for place, name in enumerate(_LONGEST)}
    items.sort(
        key=lambda item: (
            n_quiet[item.path] == n_tests[item.path],
            places.get(item.path.stem, len(places)),
            -n_tests[item.path],
        )
    )


_turn: ExitStack | None = None  # the lock of this worker's test


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, bool, bool]:
    """Have no other worker run a test at the same time as a test marked `quiet`.

    A worker keeps the lock between such tests, for each time it takes the lock, all others wait for the slowest test.
    """
    global _turn
    if _turn is None:
        _turn = ExitStack()
        with locked(run_folder() / "next"):  # who waits for quiet keeps others from starting a test
            _turn.enter_context(locked(run_folder() / "turn", fcntl.LOCK_EX if _is_quiet(item) else fcntl.LOCK_SH))
    try:
        return (yield)
    finally:
        if nextitem is None or not (_is_quiet(item) and _is_quiet(nextitem)):
            _turn.close()
            _turn = None


def _is_quiet(item: pytest.Item) -> bool:
    return item.get_closest_marker("quiet") is not None


_HANGS_SECONDS = 600  # several times the longest test


@contextmanager
def _fails_if_it_hangs() -> Iterator[None]:
    """Fail what takes too long, and print where each thread is."""
    # Not pytest-timeout, which sets no limit for a test that is run again.

    def fail(*_: object) -> None:
        faulthandler.dump_traceback(sys.__stderr__)
        pytest.fail(f"did not end within {_HANGS_SECONDS} seconds")

    signal.signal(signal.SIGALRM, fail)
    signal.alarm(_HANGS_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None]:
    with _fails_if_it_hangs():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    with _fails_if_it_hangs():
        yield


_n_modules = 0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """Collect garbage, and fail the test that leaked, or the last one of its file.

    What imports create is exempt from collection from then on, for it makes the collection slow and is never garbage.
    """
    global _n_modules
    with _fails_if_it_hangs():
        yield
        if nextitem is not None and nextitem.path == item.path:
            _collect_garbage(1)
            return
        _collect_garbage(2)
    if len(sys.modules) > _n_modules:
        _n_modules = len(sys.modules)
        gc.freeze()


def _collect_garbage(generation: int) -> None:
    leaks: list[str] = []
    before, sys.unraisablehook = sys.unraisablehook, lambda found: leaks.append(repr(found.exc_value))
    try:
        gc.collect(generation)
    finally:
        sys.unraisablehook = before
    if leaks:
        pytest.fail("\n".join(["garbage was not closed:", *leaks]), pytrace=False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print why tests were run again, and count the skipped ones by what they want."""
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.section(f"run again: {report.nodeid}")
        terminalreporter.line(report.longreprtext + report.capstderr)
    wanted = Counter(
        next((how for pattern, how in _WANTED.items() if re.search(pattern, reason)), "another machine; -rs shows why")
        for *_, reason in (report.longrepr for report in terminalreporter.stats.get("skipped", []))
    )
    if wanted:
        terminalreporter.line("skipped: " + "; ".join(f"{n} want {how}" for how, n in wanted.most_common()))


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") and not (run_folder() / "zygote").exists():  # which would remove it
        shutil.rmtree(run_folder())


class RayCluster:
    """A head that offers no processors, and nodes with one processor each, all as processes of this machine."""

    def __init__(self, folder: str) -> None:
        from ray.cluster_utils import Cluster

        self._folder = folder
        self._cluster = Cluster()
        self.head = self._add(num_cpus=0)
        self.address: str = self._cluster.address

    def add_node(self) -> Any:
        return self._add(num_cpus=1)

    def remove_node(self, node: Any) -> None:
        """Remove a node as if its plug were pulled, without telling anybody."""
        self._cluster.remove_node(node, allow_graceful=False)

    def stop(self) -> None:
        self._cluster.shutdown()

    def _add(self, num_cpus: int) -> Any:
        return self._cluster.add_node(
            num_cpus=num_cpus, object_store_memory=100 << 20, include_dashboard=False, temp_dir=self._folder
        )


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[RayCluster]:
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # a short name, since the length of socket names is limited
    with pytest.MonkeyPatch.context() as patch:
        for name, value in _ENVIRONMENT.items():
            patch.setenv(name, value)
        # Ray records the newest cluster's address here, whatever temp_dir says, and must not replace another cluster's.
        patch.setenv("RAY_TMPDIR", folder)
        os.mkdir(os.path.join(folder, "ray"))
        cluster = RayCluster(folder)
        try:
            yield cluster
        finally:
            cluster.stop()
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster(ray_cluster: RayCluster) -> RayCluster:
    """Return a cluster with two nodes."""
    for _ in range(2):
        ray_cluster.add_node()
    return ray_cluster


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    from browser import opened

    with opened() as browser:
        yield browser


@pytest.fixture(scope="session")
def demo() -> Path:
    """Return the folder of the dataset that `make demo` builds."""
    from documents import World

    def make(folder: Path) -> None:
        status, printed = World(folder / "world").shell("make demo")
        assert status == 0, printed

    return make_once(run_folder() / "demo", make) / "world" / "demo"


@pytest.fixture(scope="session")
def tiny_model(pytestconfig: pytest.Config) -> Path:
    """Return the folder of the model that tests/tiny_world.py trains, which is kept from run to run."""
    if find_spec("vllm") is None:
        pytest.skip("vLLM is not installed; `make test` installs it")
    import tiny_world

    kept = pytestconfig.cache.mkdir("tiny_model") / tiny_world.model_key()
    return make_once(kept, lambda folder: tiny_world.model(folder / "tiny")) / "tiny"


@pytest.fixture(scope="session")
def model_server(tiny_model: Path) -> str:
    """Return the base URL of a server of the tiny model, which the test run shares."""
    import tiny_world

    def start(folder: Path) -> None:
        (folder / "url").write_text(tiny_world.serve(tiny_model, folder))

    return (make_once(run_folder() / "server", start) / "url").read_text()
