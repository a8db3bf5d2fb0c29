"""The zygotes of one runner, and the cgroup for them and their runs.

The kinds of zygotes are: plain, with numpy preloaded, with the requested packages preloaded, the same three for
referees, and one for each compiler. The pool starts each on first use.
"""

import contextlib
import logging

from sandbox import languages
from sandbox.errors import BackendUnavailable, CannotIsolate
from sandbox.jail import isolation_diagnosis
from sandbox.jail.child import RunParams
from sandbox.jail.run_classification import MemoryUsage, ZygoteReport
from sandbox.jail.run_spec import RunSpec
from sandbox.jail.spawn import ZygoteKind
from sandbox.jail.warden import WardenClient
from sandbox.jail.worker_config import LANDLOCK, NAMESPACES, NONE, WorkerConfig
from sandbox.jail.zygote_client import ZygoteClient, ZygoteLost
from sandbox.kernel import cgroups

log = logging.getLogger(__name__)

_MAX_LOST_STARTS = 3  # maximum number of attempts to start the first zygote
_PARALLEL_SECONDS = 0.05  # excess of CPU over wall time that may exhaust the CPU quota of a period
_ISOLATION_LAYERS = ("processes", "files", "network", "ipc", "host name")
_LAYER_DESCRIPTIONS = {
    NAMESPACES: (
        "pid namespace for each run; the whole tree is killed and reaped",
        "read-only copy of the standard library in memory; fresh /tmp and /proc for each run",
        "empty network namespace; sockets other than AF_UNIX refused",
        "ipc namespace; objects that outlive their process refused",
        "uts namespace",
    ),
    LANDLOCK: (
        "Landlock domain for each run; forks are counted, and the whole tree is killed and reaped",
        "Landlock: read-only copy of the standard library, and a directory that is emptied after each run; no /proc",
        "all sockets refused, except connected pairs",
        "objects that outlive their process refused",
        "the machine's, visible to programs",
    ),
    NONE: (),
}
_LIMITS_WITHOUT_CGROUP = (
    "resident memory of the tree, sampled 20 times a second, and address space of each process; no kernel memory, such"
    " as buffers of sockets and pipes",
    "RLIMIT_NPROC, shared by all processes of the user",
    "CPU time only, on any number of processors",
)


class ZygotePool:
    """The zygotes of one runner.

    cgroup           the cgroup for the zygotes and their runs, or the reason for none
    runner_number    the runner's number in requests to the warden
    shutdown_events  events that abort a run in progress: descriptor -> poll mask

    Raises BackendUnavailable if the machine lacks the configured level of isolation.
    """

    def __init__(
        self,
        configuration: WorkerConfig,
        warden: WardenClient,
        cgroup: cgroups.Cgroup | str,
        runner_number: int,
        shutdown_events: dict[int, int],
    ) -> None:
        self._configuration = configuration
        self._warden = warden
        self._runner_number = runner_number
        self._shutdown_events = shutdown_events
        self._zygotes: dict[ZygoteKind, ZygoteClient] = {}
        self._cgroup = None if isinstance(cgroup, str) else cgroup
        self._cgroup_failure = cgroup if isinstance(cgroup, str) else ""
        self._enclosing_cgroup: cgroups.EnclosingCgroup | None = None
        if configuration.has_own_cgroup:
            with contextlib.suppress(OSError):
                self._enclosing_cgroup = cgroups.EnclosingCgroup()
        try:
            self._start_first_zygote()
        except BaseException:
            self.close()
            raise

    def _start_first_zygote(self) -> None:
        """Start the first zygote, without the cgroup if it cannot join it."""
        n_lost = 0
        while not self._zygotes:
            try:
                self._get_or_start_zygote(ZygoteKind())
            except cgroups.CgroupJoinError as error:
                self._cgroup, self._cgroup_failure = None, str(error)
            except ZygoteLost as error:  # a single loss does not prove that the machine cannot isolate
                n_lost += 1
                if n_lost == _MAX_LOST_STARTS:
                    reason = f"a zygote was lost {n_lost} times during its start: {error}"
                    raise self._make_isolation_error(reason) from error
            except (BackendUnavailable, OSError) as error:
                raise self._make_isolation_error(str(error)) from error

    def _make_isolation_error(self, reason: str) -> BackendUnavailable:
        level = self._configuration.level
        if level == NONE:
            return BackendUnavailable(reason)
        return CannotIsolate(isolation_diagnosis.explain_missing_level(level, reason))

    @property
    def layers(self) -> dict[str, str]:
        """The isolation layers of a run: name -> description."""
        level, reason = self._configuration.level, self._configuration.fallback_reason
        descriptions = _LAYER_DESCRIPTIONS[level] or (f"none: {reason}",) * len(_ISOLATION_LAYERS)
        memory, processes, processors = (f"best-effort: {how}" for how in _LIMITS_WITHOUT_CGROUP)
        memory = f"{memory}. No cgroup: {self._cgroup_failure}"
        if self._cgroup:
            memory = processes = processors = f"cgroup v{self._cgroup.version}"
            if not self._cgroup.bounds_cpu:
                processors = f"best-effort: {_LIMITS_WITHOUT_CGROUP[2]}: the cgroup has no cpu controller"
        elif self._enclosing_cgroup is not None:  # the worker has its own container with limits
            memory, processes, processors = (f"the container's bounds; {how}" for how in _LIMITS_WITHOUT_CGROUP)
        packages = self._configuration.packages
        return {
            "level": level,
            **({"stronger levels": f"refused: {reason}"} if reason else {}),
            "user": "",
            **dict(zip(_ISOLATION_LAYERS, descriptions, strict=True)),
            "privileges": "no new privileges, scrubbed environment, three descriptors",
            "seccomp": "",
            "memory": memory,
            "number of processes": processes,
            "processors": processors,
            "time": "cpu and wall clock of the tree; time without a processor is not counted",
            "numpy": "yes"
            if "numpy" in packages.modules and packages
            else "none: not installed in the sandbox's environment",
        } | self._zygotes[ZygoteKind()].layers

    def select_kind(self, run_spec: RunSpec) -> ZygoteKind:
        """Return the kind of zygote for a run spec."""
        language = languages.load(run_spec.program.language)
        if run_spec.run_params.op == "compile" and language.toolchain():
            return ZygoteKind(compiler_language=run_spec.program.language)
        interpreted = run_spec.run_params.op != "compile" and not language.EXECUTABLE
        loaded = self._configuration.packages.choose_preloads(run_spec.sources) if interpreted else ()
        return ZygoteKind(preloaded_modules=loaded, is_referee=run_spec.is_referee)

    def get_ready_zygote(self, kind: ZygoteKind) -> ZygoteClient:
        """Return a zygote whose cgroup is idle; replace zygotes and cgroup if the cgroup is unusable.

        Raises ZygoteLost, and CgroupUnusable if the new cgroup is also unusable.
        """
        try:
            zygote = self._get_or_start_zygote(kind)
            if self._cgroup is not None:
                self._cgroup.wait_until_idle()
            return zygote
        except cgroups.CgroupUnusable as error:
            log.info("replacing the zygotes and their cgroup: %s", error)
            self.replace_all()
            return self._get_or_start_zygote(kind)

    def begin_run(self, kind: ZygoteKind, params: RunParams) -> ZygoteClient:
        """Set the limits of a run and reset its counters; return a zygote for it. Raises as get_ready_zygote does."""
        zygote = self.get_ready_zygote(kind)
        if self._cgroup is not None:
            self._cgroup.begin_run(params.memory_mb, params.processes)
        elif self._enclosing_cgroup is not None:
            self._enclosing_cgroup.begin_run()
        return zygote

    def raise_weight(self) -> None:
        if self._cgroup is not None:
            self._cgroup.raise_weight()

    def end_run(self, report: ZygoteReport) -> MemoryUsage:
        """Return the memory usage of the latest run.

        Raises OSError if the OOM killer killed it for a lack of memory outside its cgroup.
        """
        exceeded = report.kill_reason == "memory"
        if self._cgroup is not None:
            parallel = report.cpu_seconds > report.wall_seconds + _PARALLEL_SECONDS
            usage = self._cgroup.end_run(was_parallel=parallel)
            peak_mb = report.max_resident_mb if usage.peak_mb is None else usage.peak_mb
            return MemoryUsage(peak_mb, exceeded or usage.oom_killed, usage.limit_reached)
        if self._enclosing_cgroup is not None:
            exceeded = self._enclosing_cgroup.end_run() or exceeded
        # The sandbox cannot observe exhaustion of the address space.
        return MemoryUsage(report.max_resident_mb, exceeded, limit_reached=True)

    def discard(self, kind: ZygoteKind) -> None:
        """Drop a lost zygote. Raises as replace_all does."""
        if self._cgroup is not None:
            self.replace_all()  # the cgroup's charge may still include memory of the run
        elif kind in self._zygotes:
            self._zygotes.pop(kind).close()

    def replace_all(self) -> None:
        """Kill all zygotes and replace their cgroup. Raises OSError if the warden cannot create a cgroup."""
        assert self._cgroup is not None
        while self._zygotes:
            self._zygotes.popitem()[1].close()
        self._cgroup.close()
        self._cgroup = self._warden.replace_cgroup(self._runner_number)

    def _get_or_start_zygote(self, kind: ZygoteKind) -> ZygoteClient:
        if kind not in self._zygotes:
            if self._cgroup is not None:
                self._cgroup.prepare_for_zygote()
            zygote = self._warden.start_zygote(kind, self._runner_number)
            zygote.shutdown_events = self._shutdown_events
            if self._cgroup is not None:
                self._cgroup.measure_baseline()
            self._zygotes[kind] = zygote
        return self._zygotes[kind]

    def close(self) -> None:
        for zygote in self._zygotes.values():
            zygote.close()
