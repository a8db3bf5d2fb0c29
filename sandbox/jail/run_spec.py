"""The specification of runs: a program and all parameters except the input."""

from dataclasses import dataclass, field, replace

from sandbox import languages
from sandbox.jail import files
from sandbox.jail.child import ChildParams, RunParams
from sandbox.program import Limits, Program, list_folders


@dataclass(frozen=True, slots=True)
class RunSpec:
    """The program and parameters of one or more runs.

    run_params       parameters for the zygote
    child_params     parameters that only the child of the run may read
    packed_files     files for the run's directory, see files.pack
    is_referee       whether the program belongs to the suite; if so, it shares no zygote with submissions
    preamble_fd      descriptor of compiled code that runs before the program; -1 for none
    preamble_source  source of the preamble, and of any other code that runs with the program
    encoded_params   `run_params`, encoded once for all cases of a suite
    """

    program: Program
    run_params: RunParams
    child_params: ChildParams = ChildParams()
    packed_files: bytes = b""
    is_referee: bool = False
    preamble_fd: int = -1
    preamble_source: str = ""
    encoded_params: bytes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "encoded_params", self.run_params.to_bytes())

    def with_time_limits(self, wall_seconds: float, cpu_seconds: float | None = None) -> "RunSpec":
        """Return the run spec with other time limits. cpu_seconds: None for the current limit."""
        cpu_seconds = cpu_seconds or self.run_params.cpu_seconds
        if (wall_seconds, cpu_seconds) == (self.run_params.wall_seconds, self.run_params.cpu_seconds):
            return self
        return replace(self, run_params=replace(self.run_params, wall_seconds=wall_seconds, cpu_seconds=cpu_seconds))

    def with_child_params(self, child_params: ChildParams) -> "RunSpec":
        if child_params == ChildParams():
            return self
        params = replace(self.run_params, has_child_params=True, fetches_files=bool(child_params.fetch_files))
        return replace(self, run_params=params, child_params=child_params)

    @property
    def sources(self) -> str:
        """The source of the program and its preamble, for a search for names of packages."""
        return f"{self.program.source}\n{self.preamble_source}" if self.preamble_source else self.program.source

    def with_preamble(self, preamble_fd: int, preamble_source: str) -> "RunSpec":
        """Return the run spec with this preamble; see the fields of RunSpec."""
        return replace(
            self,
            run_params=replace(self.run_params, has_preamble=True),
            preamble_fd=preamble_fd,
            preamble_source=preamble_source,
        )

    def with_files(self, contents: dict[str, bytes]) -> "RunSpec":
        """Return the run spec with these files, name -> content, and with limits increased by their size."""
        n_inodes = len(contents) + len(list_folders(contents))
        # Each MB of the disk limit permits 64 files (workspace.py).
        extra_mb = 1 + sum(map(len, contents.values())) // 2**20 + n_inodes // 50
        memory_mb, disk_mb = self.run_params.memory_mb + 2 * extra_mb, self.run_params.disk_mb + extra_mb
        params = replace(self.run_params, has_files=True, memory_mb=memory_mb, disk_mb=disk_mb)
        return replace(self, run_params=params, packed_files=files.pack(contents))


def make_run_spec(
    op: str, program: Program, limits: Limits, *, seed: int | None, entry_point: str = "", referee: bool = False
) -> RunSpec:
    """Return the run spec to compile or run a program, or to call its function `entry_point`.

    op: see child.RunParams. Raises ValueError if `op` calls functions of the program, but its language is unknown or
    not callable.
    """
    if op in ("evaluate", "serve", "run_tests") and not languages.load(program.language).CALLABLE:
        raise ValueError(f"tests in Python cannot call {program.language} programs; submit a Python program")
    if op == "call" and not languages.load(program.language).CALLABLE:
        raise ValueError(f"functions of {program.language} programs cannot be called; use a suite without entry_point")
    params = RunParams(
        op=op,
        language=program.language,
        seed=seed,
        wall_seconds=limits.wall_seconds,
        cpu_seconds=limits.cpu_seconds or limits.wall_seconds,
        memory_mb=limits.memory_mb,
        processes=limits.processes,
        output_bytes=limits.output_kb * 1024,
        disk_mb=limits.disk_mb + (4 * len(program.source) >> 20),
    )
    return RunSpec(program, params, is_referee=referee).with_child_params(ChildParams(entry_point))
