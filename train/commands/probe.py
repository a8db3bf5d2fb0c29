"""Define the command `curate probe`."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from curate.commands.printing import print_lines
from sandbox.commands.console import ProgressBar, report_user_errors, require_extra

if TYPE_CHECKING:
    from curate.probe.attempts import Attempt, AttemptResult
    from curate.probe.journal import ProbeFolder
    from curate.probe.prober import Calibration
    from curate.probe.target import TargetJudge
    from sandbox.probes.probe import ProbeClass

_SIGNATURES = ("plain", "trl", "verl", "rllm", "curate")
_FUNCTION = r"[\w.]+:\w+"
_CONVENTIONS = ("stdin", "call", "method", "asserts")


@click.command("probe")
@click.argument("target")
@click.option(
    "--signature", type=click.Choice(_SIGNATURES),
    help="Signature of the function.  [default: inferred from its parameters]",
)  # fmt: skip
@click.option(
    "--convention", "conventions", multiple=True, type=click.Choice(_CONVENTIONS),
    help="Form of the problems. Can be given several times.  [default: all forms that the target supports]",
)  # fmt: skip
@click.option("--quick", is_flag=True, help="Try each probe in one form of problems, and skip slow ones.")
@click.option(
    "--only", multiple=True, metavar="ID",
    help="Try only these probes, classes or groups. Can be given several times.  [default: all]",
)  # fmt: skip
@click.option(
    "--dataset", type=click.Path(path_type=Path), metavar="D",
    help="Also submit references of the dataset's rows, and mutants of these references.  [default: only the built-in "
    "problems]",
)  # fmt: skip
@click.option(
    "--host", is_flag=True, help="Also try to attack the machine, for a target that should isolate programs from it."
)
@click.option(
    "--network", is_flag=True, help="Keep the network in the process of a function, for a judge that calls a server."
)
@click.option(
    "--seconds", type=click.FloatRange(min=0.1), default=30.0, show_default=True, help="Time limit of each call."
)
@click.option("--jobs", type=click.IntRange(1, 64), default=2, show_default=True, help="Number of concurrent calls.")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False),
    help="Folder for submissions, answers and reports.  [default: none]",
)  # fmt: skip
@click.option("--resume", is_flag=True, help="Continue an interrupted probe in the folder --out.")
def command(
    target: str, signature: str | None, conventions: tuple[str, ...], quick: bool, only: tuple[str, ...],
    dataset: Path | None, host: bool, network: bool, seconds: float, jobs: int, out: Path | None, resume: bool,
) -> None:  # fmt: skip
    """Test whether a judge of programs rewards hacks or refuses right submissions.

    TARGET is a reward function, MODULE:FUNCTION; the address of a `curate serve` or of a SandboxFusion,
    http://HOST:PORT; an installed environment, verifiers:NAME; or the configuration file of a run, to test its reward.
    The submissions are small programs for small problems: right ones in many forms, and hacks that other judges have
    rewarded. A function runs in a separate process with a private /tmp, and in namespaces if the kernel allows
    them. The exit status is 1 if the target rewarded a hack or returned a wrong reward during an outage, and 2 if the
    target cannot be used.
    """
    if resume and out is None:
        raise click.UsageError("--resume continues the probe in the folder --out. Give --out as well.")
    if dataset is not None:
        require_extra("data")
    if out is not None:
        require_extra("data", ["jinja2"])
    from curate.errors import CurateError
    from curate.probe.attempts import Finding, find_unknown_names, plan_attempts
    from curate.probe.bait import expose_bait
    from curate.probe.findings import ProbeReport, build_sections
    from curate.probe.forms import UnusableTarget
    from curate.probe.journal import ProbeFolder
    from curate.probe.prober import Prober, calibrate
    from curate.text.document import render_terminal
    from sandbox.errors import SandboxError
    from sandbox.probes.host.machine import BAIT_SECRET
    from sandbox.probes.probe import Convention
    from sandbox.probes.problems import PROBLEMS

    with report_user_errors(CurateError, UnusableTarget, SandboxError, OSError, exit_code=2):
        factory = _choose_judge(target, signature, seconds=seconds, network=network, bait=BAIT_SECRET if host else "")
        with closing(factory()) as judge:
            described = judge.open()
            wanted = [Convention(name) for name in conventions] or list(described.conventions)
            problems = [problem for problem in PROBLEMS if problem.convention in wanted]
            calibration = calibrate(judge, described, problems)
        extra_classes = () if dataset is None else _make_dataset_probes(dataset, calibration)
        attempts = list(
            plan_attempts(
                calibration.scales,
                accepts_text=described.accepts_text,
                include_outages=bool(described.protections),
                include_host=host,
                quick=quick,
                only=only,
                extra_classes=extra_classes,
            )
        )
        if unknown := find_unknown_names(only, extra_classes):
            raise UnusableTarget(f"no probe has the name {', '.join(unknown)}; names are GROUP/CLASS/PROBE/CONVENTION")
        if not attempts:
            raise UnusableTarget(
                f"no probe of {', '.join(only)} fits the target; those of host need --host, "
                "and those of extract and outage a target that is no server"
            )
        folder = None
        if out is not None:
            settings = {
                "target": target,
                "kind": described.kind,
                "conventions": sorted(map(str, calibration.scales)),
                "quick": quick,
                "dataset": str(dataset or ""),
            }
            folder = click.get_current_context().with_resource(ProbeFolder(out, settings, resume=resume))
        prober = Prober(factory, calibration, jobs=jobs)
        on_this_machine = host and not described.protections  # a server's programs are not our child processes
        with ProgressBar(" probes") as progress, expose_bait(BAIT_SECRET) if on_this_machine else nullcontext():
            results = list(_run_attempts(prober.run, attempts, folder, progress))
    notes = [
        f"Left out: tests of the form {name}, because {reason}. If the target takes such tests, wrap it in "
        "score(completion, tests), as the guide shows."
        for name, reason in calibration.unsupported.items()
    ]
    if missing := [f"{name} ({how})" for name, how in described.protections.items() if how.startswith("none")]:
        notes.append(f"The target's process was not isolated from this machine: {', '.join(missing)}.")
    report = ProbeReport(target, described.kind, notes, results, extra_classes)
    if folder is not None:
        folder.write_reports(report)
    print_lines(render_terminal(build_sections(report)))
    click.echo(f"\n{report.summary.line}")
    sys.exit(1 if any(result.finding in (Finding.REWARDED, Finding.OUTAGE) for result in results) else 0)


def _make_dataset_probes(location: Path, calibration: "Calibration") -> "tuple[ProbeClass, ...]":
    from curate.dataset.dataset import Dataset
    from curate.dataset.location import resolve_dataset_folder
    from curate.probe.rows import make_row_classes

    dataset = Dataset.open(resolve_dataset_folder(location)).require_problems()
    return make_row_classes(location, dataset, calibration.scales.keys())


def _choose_judge(
    target: str, signature: str | None, *, seconds: float, network: bool, bait: str
) -> "Callable[[], TargetJudge]":
    from curate.probe.forms import RUN, VERIFIERS, UnusableTarget
    from curate.probe.http_judge import HttpJudge
    from curate.probe.python_judge import PythonJudge, PythonTarget

    if signature and not re.fullmatch(_FUNCTION, target):
        raise UnusableTarget(f"--signature is for a MODULE:FUNCTION, but the target is {target!r}; omit --signature")
    if re.match("https?://", target):
        require_extra("serve", ["urllib3"])
        return lambda: HttpJudge(target, call_seconds=seconds)
    if target.endswith(".toml"):
        path = Path(target).absolute()
        if not path.is_file():
            raise UnusableTarget(f"there is no file {target}; give the configuration of a run")
        from train.rollouts.probed_reward import needs_network

        found = PythonTarget(
            "train.rollouts.probed_reward:open_reward", RUN, argument=str(path),
            network=network or needs_network(str(path)), bait=bait,
        )  # fmt: skip
    elif re.match("verifiers:.", target):
        found = PythonTarget(
            "curate.probe.verifiers_judge:open_environment", VERIFIERS, argument=target.partition(":")[2],
            network=network, bait=bait,
        )  # fmt: skip
    elif re.fullmatch(_FUNCTION, target):
        found = PythonTarget(target, signature or "", network=network, bait=bait)
    else:
        raise UnusableTarget(
            f"{target!r} is not a target; give MODULE:FUNCTION, http://HOST:PORT, verifiers:NAME or a file run.toml"
        )
    return lambda: PythonJudge(found, call_seconds=seconds)


def _run_attempts(
    run: "Callable[[list[Attempt]], Iterator[AttemptResult]]", attempts: "list[Attempt]",
    folder: "ProbeFolder | None", progress: ProgressBar,
) -> "Iterator[AttemptResult]":  # fmt: skip
    """Yield the results of attempts, beginning with the results in `folder`, and journal the new ones."""
    earlier = {} if folder is None else folder.earlier
    done = [earlier[attempt.id] for attempt in attempts if attempt.id in earlier]
    yield from done
    left = [attempt for attempt in attempts if attempt.id not in earlier]
    for number, result in enumerate(run(left), len(done) + 1):
        if folder is not None:
            folder.add(result)
        progress("probe", number, len(attempts))
        yield result
