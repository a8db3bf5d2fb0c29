"""The zygotes of one runner, and the cgroup that they and their runs are in.

There are several kinds of zygote: plain, with numpy loaded, with the requested packages loaded, the same three for
referees, and one for each compiler, whose files it sees. Each is started on first use.
"""

import contextlib
import logging

from sandbox import languages
from sandbox.errors import BackendUnavailable, CannotIsolate
from sandbox.jail import cgroups, isolation_diagnosis
from sandbox.jail.child import RunParams
from sandbox.jail.run_classification import MemoryUsage, ZygoteReport
from sandbox.jail.run_spec import RunSpec
from sandbox.jail.spawn import ZygoteKind
from sandbox.jail.warden import WardenClient
from sandbox.jail.worker_config import LANDLOCK, NAMESPACES, NONE, WorkerConfig
from sandbox.jail.zygote_client import ZygoteClient, ZygoteLost

log = logging.getLogger(__name__)

_STARTS = 3  # failed starts of the first zygote after which the machine counts as unable to isolate
_PARALLEL_SECONDS = 0.05  # CPU time beyond wall time; with less, a run cannot have exhausted a period of 0.1 s
_OF_WALL = ("processes", "files", "network", "ipc", "host name")
_HOW = {
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
        "the machine's is seen",
    ),
    NONE: (),
}
_WITHOUT_CGROUP = (
    "resident memory of the tree, looked at 20 times a second, and the address space of each process; not what the"
    " kernel holds for them, such as the buffers of sockets and pipes",
    "RLIMIT_NPROC, which counts all processes of the same user together",
    "CPU time alone, not how many processors at once",
)


class ZygotePool:
    """The zygotes of one runner.

    cgroup           the cgroup of the zygotes and their runs, or why there is none
    place            the runner's number at the warden
    shutdown_events  events that end a run in progress: descriptor -> poll mask

    Raises BackendUnavailable if the machine cannot isolate as configured.
    """

    def __init__(
        self,
        configuration: WorkerConfig,
        warden: WardenClient,
        cgroup: cgroups.Cgroup | str,
        place: int,
        shutdown_events: dict[int, int],
    ) -> None:
        self._configuration = configuration
        self._warden = warden
        self._place = place
        self._shutdown_events = shutdown_events
        self._zygotes: dict[ZygoteKind, ZygoteClient] = {}
        self._cgroup = None if isinstance(cgroup, str) else cgroup
        self._no_cgroup = cgroup if isinstance(cgroup, str) else ""
        self._surroundings: cgroups.EnclosingCgroup | None = None
        if configuration.has_own_cgroup:
            with contextlib.suppress(OSError):
                self._surroundings = cgroups.EnclosingCgroup()
        try:
            self._start_first()
        except BaseException:
            self.close()
            raise

    def _start_first(self) -> None:
        """Start the first zygote, with a cgroup if it can join one."""
        lost = 0
        while not self._zygotes:
            try:
                self._zygote(ZygoteKind())
            except cgroups.CgroupJoinError as error:
                self._cgroup, self._no_cgroup = None, str(error)
            except ZygoteLost as error:  # killed during its start, so the machine may be sound
                lost += 1
                if lost == _STARTS:
                    reason = f"a zygote ended {lost} times while it started: {error}"
                    raise self._cannot_isolate(reason) from error
            except (BackendUnavailable, OSError) as error:
                raise self._cannot_isolate(str(error)) from error

    def _cannot_isolate(self, reason: str) -> BackendUnavailable:
        level = self._configuration.level
        return (
            BackendUnavailable(reason)
            if level == NONE
            else CannotIsolate(isolation_diagnosis.explain_refusal(level, reason))
        )

    @property
    def layers(self) -> dict[str, str]:
        """The layers that isolate a run: name -> how."""
        level, refused = self._configuration.level, self._configuration.refusal_reason
        of_wall = dict(zip(_OF_WALL, _HOW[level] or (f"none: {refused}",) * len(_OF_WALL), strict=True))
        memory, processes, processors = (f"best-effort: {how}" for how in _WITHOUT_CGROUP)
        memory = f"{memory}. No cgroup: {self._no_cgroup}"
        if self._cgroup:
            memory = processes = processors = f"cgroup v{self._cgroup.version}"
            if not self._cgroup.bounds_cpu:
                processors = f"best-effort: {_WITHOUT_CGROUP[2]}: the cgroup has no cpu controller"
        elif self._surroundings is not None:  # each worker has its own container with limits
            memory, processes, processors = (f"the container's bounds; {how}" for how in _WITHOUT_CGROUP)
        packages = self._configuration.packages
        return {
            "level": level,
            **({"stronger levels": f"refused: {refused}"} if refused else {}),
            "user": "",
            **of_wall,
            "privileges": "no new privileges, scrubbed environment, three descriptors",
            "seccomp": "",
            "memory": memory,
            "number of processes": processes,
            "processors": processors,
            "time": "cpu and wall clock of the tree; time without a processor is not counted",
            "numpy": "yes" if "numpy" in packages.modules and packages else "none: not installed beside the sandbox",
        } | self._zygotes[ZygoteKind()].layers

    def kind_for(self, run_spec: RunSpec) -> ZygoteKind:
        """Return the kind of zygote that a run spec needs."""
        language = languages.load(run_spec.program.language)
        if run_spec.run_params.op == "compile" and language.toolchain():
            return ZygoteKind(compiler_language=run_spec.program.language)
        interpreted = run_spec.run_params.op != "compile" and not language.EXECUTABLE
        loaded = self._configuration.packages.modules_to_preload(run_spec.sources) if interpreted else ()
        return ZygoteKind(preloaded_modules=loaded, is_referee=run_spec.is_referee)

    def get_ready_zygote(self, kind: ZygoteKind) -> ZygoteClient:
        """Return a zygote whose cgroup is idle; if necessary, a new one in a new cgroup.

        Raises ZygoteLost, and CgroupUnusable if even a new cgroup does not help.
        """
        try:
            zygote = self._zygote(kind)
            if self._cgroup is not None:
                self._cgroup.wait_until_idle()
            return zygote
        except cgroups.CgroupUnusable as error:
            log.info("restarting zygotes: %s", error)
            self.replace_all()
            return self._zygote(kind)

    def begin_run(self, kind: ZygoteKind, job: RunParams) -> ZygoteClient:
        """Set the counters and limits of a run; return the zygote for it. Raises as get_ready_zygote does."""
        zygote = self.get_ready_zygote(kind)
        if self._cgroup is not None:
            self._cgroup.begin_run(job.memory_mb, job.processes)
        elif self._surroundings is not None:
            self._surroundings.begin()
        return zygote

    def raise_weight(self) -> None:
        """Raise the priority of the run in progress, if it has a cgroup."""
        if self._cgroup is not None:
            self._cgroup.raise_weight()

    def end_run(self, report: ZygoteReport) -> MemoryUsage:
        """Return the memory usage of the run that has just ended.

        Raises OSError if it was killed because of memory that others use.
        """
        exceeded = report.kill_reason == "memory"
        if self._cgroup is not None:
            parallel = report.cpu_seconds > report.wall_seconds + _PARALLEL_SECONDS
            used = self._cgroup.end_run(was_parallel=parallel)
            peak_mb = report.max_resident_mb if used.peak_mb is None else used.peak_mb
            return MemoryUsage(peak_mb, exceeded or used.oom_killed, used.limit_reached)
        if self._surroundings is not None:
            exceeded = self._surroundings.end() or exceeded
        return MemoryUsage(
            report.max_resident_mb, exceeded, limit_reached=True
        )  # exhaustion of address space is not observable

    def discard(self, kind: ZygoteKind) -> None:
        """Drop a lost zygote. Raises as replace_all does."""
        if self._cgroup is not None:
            self.replace_all()  # its run's memory may stay charged for a while
        elif kind in self._zygotes:
            self._zygotes.pop(kind).close()

    def replace_all(self) -> None:
        """Replace all zygotes and their cgroup. Raises OSError if none can be made."""
        assert self._cgroup is not None
        while self._zygotes:
            self._zygotes.popitem()[1].close()
        self._cgroup.close()
        self._cgroup = self._warden.replace_cgroup(self._place)

    def _zygote(self, kind: ZygoteKind) -> ZygoteClient:
        if kind not in self._zygotes:
            if self._cgroup is not None:
                self._cgroup.prepare_for_zygote()
            zygote = self._warden.start(kind, self._place)
            zygote.set_shutdown_events(self._shutdown_events)
            if self._cgroup is not None:
                self._cgroup.measure_baseline()
            self._zygotes[kind] = zygote
        return self._zygotes[kind]

    def close(self) -> None:
        for zygote in self._zygotes.values():
            zygote.close()
