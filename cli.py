"""The `curate` command."""

import hashlib
import io
import json
import os
import platform
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from datetime import timedelta
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

import click

_workers = click.option(
    "--workers", type=click.IntRange(min=1), help="Programs to run at once.  [default: one per core]"
)
_isolation = click.option(
    "--isolation",
    type=click.Choice(["full", "best-effort"]),
    default="full",
    show_default=True,
    help="What to do where the machine cannot isolate fully.",
)
_ray = click.option(
    "--ray",
    metavar="ADDRESS",
    help="Run programs on the nodes of a Ray cluster: HOST:PORT of its head, or auto. --workers is for each node.",
)


def _against(*, required: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(
        "--against",
        multiple=True,
        required=required,
        metavar="NAME=LOCATION",
        help="An evaluation set that no row may hold, and its file, folder or Hub id. humaneval, lcb and codeforces "
        "are read in their published forms, any other name by the usual columns. lcb:FROM..TO, with or without a "
        "location, also takes the contests of these dates from rows of LiveCodeBench. Repeatable.",
    )


@click.group()
def main() -> None:
    """Turn raw programming problems into datasets whose rewards can be trusted."""
    found = find_spec("sandbox")
    here = Path(__file__).resolve().parent
    if found is None or found.origin is None or Path(found.origin).resolve().parent.parent != here:
        raise click.ClickException(
            f"another package named sandbox hides ours: {found and found.origin}. SandboxFusion's server is one; "
            "install curate-code in an environment of its own."
        )


@main.command()
@click.argument("records", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="File for one verdict per line.")
@_workers
@click.option("--run-all", is_flag=True, help="Run all tests of a submission, also after one has failed.")
@_isolation
@_ray
def judge(records: Path, out: Path, workers: int | None, run_all: bool, isolation: str, ray: str | None) -> None:
    """Judge the submissions in RECORDS, a JSON Lines file.

    A record has id, code, kind (stdin or function), fn_name, tests ([{input, output}]), time_limit_s and
    memory_limit_mb; optional language and checker. After an interruption the same command continues.
    """
    from tqdm import tqdm

    from sandbox import Sandbox, SandboxError
    from sandbox.record import judge_lines

    # Named after what is judged, so that only the same work is continued.
    with records.open("rb") as content:
        fingerprint = hashlib.file_digest(content, "sha256").hexdigest()[:12]
    partial = out.with_name(f"{out.name}.{fingerprint}{'.all' if run_all else ''}.partial")
    out.parent.mkdir(parents=True, exist_ok=True)
    done = _whole_lines(partial)
    total = sum(1 for _ in _numbered(records))
    try:
        where: dict[str, Any] = {"backend": "ray", "address": ray} if ray else {}
        with Sandbox(workers, isolation=isolation, **where) as box, partial.open("a", encoding="utf-8") as file:
            answers = judge_lines(box, islice(_numbered(records), done, None), run_all=run_all)
            for answer in tqdm(
                answers, total=total, initial=done, unit=" submissions", disable=not sys.stderr.isatty()
            ):
                if "error" in answer:
                    tqdm.write(f"{records}:{answer['line']}: {answer['error']}", file=sys.stderr)
                file.write(json.dumps(answer) + "\n")
                file.flush()
    except SandboxError as error:
        saved = f". What is judged is in {partial}, the same command continues" if partial.exists() else ""
        raise click.ClickException(f"{error}{saved}") from error
    except KeyboardInterrupt:
        raise click.ClickException(f"interrupted; what is judged is in {partial}, the same command continues") from None
    partial.rename(out)
    with out.open(encoding="utf-8") as lines:
        verdicts = Counter(json.loads(line).get("verdict", "error") for line in lines)
    click.echo(f"{total} records: " + ", ".join(f"{word} {n}" for word, n in verdicts.most_common()))
    click.echo(f"verdicts in {out}")
    sys.exit(1 if verdicts["error"] else 0)


def _numbered(records: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file that hold something, with their numbers."""
    with records.open(encoding="utf-8", errors="surrogateescape") as file:
        yield from ((number, line) for number, line in enumerate(file, 1) if line.strip())


def _whole_lines(partial: Path) -> int:
    """Complete lines that an interrupted run left; a torn last one is cut off."""
    if not partial.exists():
        return 0
    data = partial.read_bytes()
    os.truncate(partial, data.rfind(b"\n") + 1)
    return data.count(b"\n")


@main.command()
@click.option("--backend", default="local", show_default=True, help="Where programs run: local, docker, ray or http.")
@click.option("--address", help="Of the Ray cluster, or the URL of the service.")
@_isolation
def doctor(backend: str, address: str | None, isolation: str) -> None:
    """Show what isolates programs, and check it."""
    from sandbox import Sandbox, SandboxError
    from sandbox.conformance import KNOWN_FAILURES, run

    click.echo(f"curate-code {version('curate-code')}, Python {platform.python_version()}, Linux {platform.release()}")
    known = KNOWN_FAILURES.get(backend, {})
    failed = 0
    try:
        with Sandbox(workers=1, backend=backend, isolation=isolation, **_where(backend, address)) as box:
            click.echo(f"\nbackend {backend}: what isolates a run")
            weak = [layer for layer, how in box.layers.items() if how.startswith(("none", "best-effort"))]
            for layer, how in box.layers.items():
                click.echo(f"{'!' if layer in weak else ' '} {layer:<20} {how}")
            if weak:
                click.echo(f"\n! weaker than it can be, or missing: {', '.join(weak)}")
            click.echo("\nself-check")
            for finding in run(box):
                name = finding.check.name
                if finding.holds:
                    click.echo(f"  ok      {name}")
                elif finding.holds is None:
                    click.echo(f"  absent  {name}: {finding.seen}")
                elif name in known:
                    click.echo(f"  known   {name}: {known[name]}")
                else:
                    failed += 1
                    click.echo(f"  FAILED  {name}: {finding.seen}")
    except (SandboxError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"\n{'all checks hold' if not failed else f'{failed} checks failed'}")
    sys.exit(1 if failed else 0)


def _where(backend: str, address: str | None) -> dict[str, Any]:
    """The keyword of a backend that says where it is."""
    if address is None:
        return {}
    keyword = {"ray": "address", "http": "url"}.get(backend)
    if keyword is None:
        raise click.ClickException(f"--address is for the backends ray and http, not {backend}")
    return {keyword: address}


@main.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0 takes a free one.")
@_workers
@click.option(
    "--queue", type=click.IntRange(min=0), default=1024, show_default=True, help="Requests that may wait for a worker."
)
@click.option(
    "--max-body-mb",
    type=click.FloatRange(min=0, min_open=True),
    default=32,
    show_default=True,
    help="Size of the largest request.",
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with the token that clients must send; or set CURATE_TOKEN. Needed where others can reach the service.",
)
@click.option(
    "--most-memory-mb",
    type=click.IntRange(1, 2**24),
    help="Memory that may be asked for one run; by default a worker's share of what the machine has, or 4096.",
)
@click.option(
    "--most-wall-seconds",
    type=click.FloatRange(min=0, max=10**5, min_open=True),
    default=3600,
    show_default=True,
    help="Time that may be asked for one run.",
)
@click.option(
    "--most-processes",
    type=click.IntRange(1, 2**20),
    default=4096,
    show_default=True,
    help="Processes and threads that may be asked for one run.",
)
@click.option(
    "--most-output-kb",
    type=click.IntRange(1, 2**22),
    default=64 * 1024,
    show_default=True,
    help="Output that may be asked for one run; the service holds it in memory.",
)
@click.option(
    "--most-disk-mb",
    type=click.IntRange(1, 2**24),
    help="Space in /tmp that may be asked for one run; by default as much as memory.",
)
@_isolation
def serve(
    host: str,
    port: int,
    workers: int | None,
    queue: int,
    max_body_mb: float,
    token_file: Path | None,
    most_memory_mb: int | None,
    most_wall_seconds: float,
    most_processes: int,
    most_output_kb: int,
    most_disk_mb: int | None,
    isolation: str,
) -> None:
    """Judge and run programs for others, over HTTP.

    POST /judge takes records as `curate judge` does; POST /run_code speaks SandboxFusion. The whole is described at
    /openapi.json. SIGTERM and Ctrl-C let what was accepted finish; a second one ends at once.
    """
    missing = [name for name in ("prometheus_client", "starlette", "uvicorn", "httptools") if find_spec(name) is None]
    if missing:
        raise click.ClickException(f"{', '.join(missing)} not installed. Type: pip install 'curate-code[serve]'")
    from sandbox import Sandbox, SandboxError
    from sandbox.service import bounds, server
    from sandbox.service.settings import Settings, is_loopback

    token = _token(token_file)
    try:
        if token is None and not is_loopback(host):
            raise click.ClickException(
                f"whoever reaches {host} could run programs here; give a token: --token-file FILE, or set CURATE_TOKEN"
            )
        listener = server.listen(host, port)
    except OSError as error:
        raise click.ClickException(
            f"cannot listen on {host}, port {port}: {error.strerror}. Choose others with --host and --port."
        ) from error
    address, port = listener.getsockname()[:2]
    url = f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"
    try:
        with listener, Sandbox(workers, isolation=isolation) as box:
            most = bounds.default_most(box.workers)
            most = replace(
                most,
                wall_seconds=most_wall_seconds,
                cpu_seconds=most_wall_seconds,
                memory_mb=most_memory_mb or most.memory_mb,
                processes=most_processes,
                output_kb=most_output_kb,
                disk_mb=most_disk_mb or most_memory_mb or most.disk_mb,
            )
            settings = Settings(queue=queue, max_body_mb=max_body_mb, token=token, host=host, most=most)
            words = f"listening on {url} ({box.workers} workers, {'token' if token else 'no token'})"
            done = server.serve(box, settings, listener, lambda: click.echo(words))
    except SandboxError as error:
        raise click.ClickException(str(error)) from error
    if not done:
        raise click.ClickException("stopped before all that was accepted was answered")


def _token(file: Path | None) -> str | None:
    """The service's token, from a file or the environment."""
    token = file.read_text().strip() if file is not None else os.environ.get("CURATE_TOKEN") or None
    if token is not None and (not token or not token.isascii() or not token.isprintable() or " " in token):
        raise click.ClickException(
            f"the token in {file or 'CURATE_TOKEN'} must be one word of ASCII. Make one: openssl rand -hex 32"
        )
    return token


@main.command("sources")
def list_sources() -> None:
    """List the sources that a dataset can be built from, with what is known to be wrong with them."""
    from curate.pipeline import source_names

    for name in source_names():
        source = import_module(f"curate.sources.{name}")
        click.echo(f"{name}: {source.TITLE}, {source.ROWS}")
        click.echo(f"    Hub id {source.HUB_ID or 'none'}, licence {source.LICENCE}")
        click.echo(f"    known defects: {source.DEFECTS}")


@main.command("build-dataset")
@click.option(
    "--source",
    "sources",
    multiple=True,
    required=True,
    metavar="NAME=LOCATION",
    help="A source (see `curate sources`) and its file, folder, Hub id or Hub id@revision; options follow, as in "
    "'livecodebench=PATH?release=v5&from=2024-08-01', or stand in a TOML file beside the location. Repeatable; of two "
    "equally good duplicates the one of the source given first stays.",
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder of the dataset.")
@click.option(
    "--min-tests",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Distinct tests a problem needs.",
)
@click.option(
    "--tries",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="Solutions to execute before a problem is given up.",
)
@click.option(
    "--cross-checks",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    help="Further solutions to execute on all tests of a verified problem: do they agree?",
)
@click.option(
    "--mutants",
    type=click.IntRange(min=0),
    default=24,
    show_default=True,
    help="Wrong programs to make of each reference, to see how many its tests reject. 0 leaves it out.",
)
@click.option(
    "--min-test-strength",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Least share of these wrong programs that the tests of a problem must reject.  [default: any]",
)
@click.option(
    "--reference-language",
    "reference_languages",
    multiple=True,
    default=["python"],
    show_default=True,
    metavar="NAME",
    help="Language of solutions to execute (python, cpp). Repeatable; Python ones are tried first.",
)
@click.option(
    "--no-reference",
    type=click.Choice(["keep", "drop"]),
    default="keep",
    show_default=True,
    help="Problems of sources that publish no solutions.",
)
@click.option(
    "--dedup",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.7,
    show_default=True,
    help="Least Jaccard similarity of near-duplicates.",
)
@_against(required=False)
@click.option("--limit", type=click.IntRange(min=1), help="Read only the first N problems of each source.")
@_workers
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the programs' random and hash order.")
@_isolation
@_ray
@click.option("--dry-run", is_flag=True, help="Read and filter only; execute and write nothing.")
@click.option("--overwrite", is_flag=True, help="Replace another dataset in the folder.")
def build_dataset(
    sources: tuple[str, ...],
    out: Path,
    against: tuple[str, ...],
    workers: int | None,
    isolation: str,
    ray: str | None,
    dry_run: bool,
    overwrite: bool,
    **chosen: Any,
) -> None:
    """Turn raw problems into a verified, deduplicated dataset.

    Work is saved as it goes: after an interruption the same command continues.
    """
    _need_data_extra()
    from curate.errors import CurateError
    from curate.pipeline import Options, build, survey

    locations = [_name_and_location(source) for source in sources]
    try:
        options = Options(**chosen)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    progress = _Progress()
    try:
        if dry_run:
            counts = survey(locations, options, against=against, report=progress)
            progress.close()
            _print_funnel(counts)
            return
        manifest = build(
            locations,
            out,
            options,
            against=against,
            workers=workers,
            isolation=isolation,
            ray=ray,
            overwrite=overwrite,
            report=progress,
        )
    except (CurateError, OSError) as error:  # OSError: an input or the folder is not ours to read or write
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        raise click.ClickException(f"interrupted; work is saved in {out}, the same command continues") from None
    finally:
        progress.close()
    _print_funnel(manifest["counts"])
    if manifest["decontamination"]:
        click.echo()
        _print_contamination(manifest["decontamination"])
    kept = sum(count["kept"] for count in manifest["counts"].values())
    click.echo(f"\n{kept} problems in {out}")
    if not kept:
        click.echo("Error: no problem survived; the reasons are above and in the config `rejected`.", err=True)
    click.echo(f"content hash {manifest['content_hash']}")
    sys.exit(0 if kept else 1)


@main.command()
@click.argument("dataset")
@_against(required=True)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder of the cleaned dataset.")
@click.option("--text", metavar="COLUMN", help="Column of DATASET that holds the problems.  [default: the usual names]")
@click.option("--overwrite", is_flag=True, help="Replace another dataset in the folder.")
def decontaminate(dataset: str, against: tuple[str, ...], out: Path, text: str | None, overwrite: bool) -> None:
    """Copy DATASET without the rows that hold evaluation items.

    DATASET is a folder of build-dataset, or any file or folder of Parquet or JSON Lines. Rows that went are in
    rejected/; every hit, with its score and the words in common, is in contamination/.
    """
    _need_data_extra()
    from curate.decontamination.copy_without import clean
    from curate.errors import CurateError

    progress = _Progress()
    try:
        manifest = clean(dataset, against, out, text=text, overwrite=overwrite, report=progress)
    except (CurateError, OSError) as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        raise click.ClickException(f"interrupted; {dataset} is as it was, the same command starts again") from None
    finally:
        progress.close()
    _print_contamination(manifest["decontamination"])
    kept = sum(count["kept"] for count in manifest["counts"].values())
    click.echo(f"\n{kept} rows in {out}; every hit is in {out / 'contamination'}")
    click.echo(f"content hash {manifest['content_hash']}")
    sys.exit(0 if kept else 1)


@main.command("export")
@click.argument("dataset", type=click.Path(path_type=Path))
@click.option("--to", required=True, metavar="[jsonl|trl|verifiers|verl]", help="The form to write.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder to write to.")
@click.option(
    "--select",
    default="strongest",
    metavar="[strongest|longest|all]",
    show_default=True,
    help="Tests that rewards run: those that catch most wrong programs, those with the longest inputs, or all.",
)
@click.option(
    "--budget", type=click.IntRange(min=1), help="Tests at most.  [default: 15; 10 where verl's own scorer runs them]"
)
@click.option("--unverified", is_flag=True, help="Also problems without a reference that passed the tests.")
@click.option(
    "--verl-data-source",
    metavar="NAME",
    default="taco",
    show_default=True,
    help="By it verl chooses its scorer. apps, codecontests, codeforces and taco go to its own; any other needs "
    "rewards.verl, which takes every row.",
)
@click.option("--overwrite", is_flag=True, help="Replace an earlier export in the folder.")
def export_dataset(dataset: Path, to: str, out: Path, overwrite: bool, **chosen: Any) -> None:
    """Write DATASET in the form of a trainer or a tool.

    verl: Parquet for its loader and scorers. trl: a dataset for GRPOTrainer. verifiers: an environment package. jsonl:
    records of `curate judge`. Rows that a form cannot express are left out, counted, and listed in left_out.jsonl.
    """
    _need_data_extra()
    from curate.errors import CurateError
    from curate.exports._export import export, reasons, target_names
    from curate.exports._options import ExportOptions

    if to not in target_names():
        raise click.BadParameter(f"{to!r} is not one of {', '.join(target_names())}", param_hint="--to")
    try:
        options = ExportOptions(**chosen)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    progress = _Progress()
    try:
        manifest = export(dataset, to, out, options, overwrite=overwrite, report=progress)
    except (CurateError, OSError) as error:
        raise click.ClickException(str(error)) from error
    finally:
        progress.close()
    counts = manifest["counts"]
    click.echo(f"{counts['exported']} of {counts['rows']} problems in {out}")
    for reason, n in counts["left_out"].items():
        click.echo(f"  left out: {reason} {n} ({reasons(to)[reason]})")


@main.command("push")
@click.argument("dataset", type=click.Path(path_type=Path))
@click.argument("repo_id")
@click.option(
    "--private/--public", default=True, show_default=True, help="Of a repository that is new; others stay as they are."
)
@click.option("--revision", default="main", show_default=True, help="Branch to commit to.")
@click.option("--dry-run", is_flag=True, help="Show what would be sent; the network is not asked.")
def push_dataset(dataset: Path, repo_id: str, private: bool, revision: str, dry_run: bool) -> None:
    """Commit DATASET to the Hub as the dataset REPO_ID, such as owner/name.

    All tables, the card, the manifest and the report go up in one commit, or nothing does.
    """
    _need_data_extra()
    from curate.dataset.push import push, upload_of
    from curate.errors import CurateError

    try:
        upload = upload_of(dataset, repo_id, private=private, revision=revision)
        for name, size in upload.files.items():
            click.echo(f"{size:>14,}  {name}")
        click.echo(f"{sum(upload.files.values()):>14,}  bytes in {len(upload.files)} files")
        where = f"dataset {repo_id}, revision {revision}"
        if dry_run:
            kind = "private" if private else "public"
            click.echo(f"nothing was sent; to {where}, which would be created if it is not there, {kind}")
            return
        click.echo(f"sending to {where}")
        click.echo(f"committed: {push(upload)}")
    except (CurateError, OSError) as error:
        raise click.ClickException(str(error)) from error


@main.command()
@click.argument("dataset", type=click.Path(path_type=Path))
@click.argument("id", required=False)
@click.option("--test", "number", type=int, metavar="N", help="Show this test of the problem whole; the first is 1.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Rows to list.")
def inspect(dataset: Path, id: str | None, number: int | None, limit: int) -> None:
    """List the first problems of DATASET, or show all about the row called ID, kept or rejected."""
    _need_data_extra()
    from curate.dataset.folder import DatasetFolder
    from curate.dataset.inspect_rows import listed, one_test, shown

    if id is None and number is not None:
        raise click.ClickException(f"whose test? Type: curate inspect {dataset} ID --test {number}")
    with _mistakes_explained():
        folder = DatasetFolder.opened(dataset)
        if id is None:
            _print_lines(listed(folder, limit))
        else:
            _print_lines(shown(folder, id) if number is None else one_test(folder, id, number))


@main.command()
@click.argument("dataset", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as report.json has them.")
def stats(dataset: Path, as_json: bool) -> None:
    """Count what is in DATASET: the tables of its report."""
    _need_data_extra()
    from curate.dataset.folder import DatasetFolder
    from curate.report.files import stored_pairs
    from curate.report.lines import lines
    from curate.report.numbers import numbers

    with _mistakes_explained():
        counted = numbers(DatasetFolder.opened(dataset), stored_pairs(dataset))
    if as_json:
        click.echo(json.dumps(counted, indent=1))
    else:
        _print_lines(lines(counted))


@main.command()
@click.argument("old", metavar="A", type=click.Path(path_type=Path))
@click.argument("new", metavar="B", type=click.Path(path_type=Path))
def diff(old: Path, new: Path) -> None:
    """Say what changed between the datasets A and B.

    Columns that are measured do not count. The exit status is 0 if both have the same content, 1 if not, and 2 if
    they cannot be compared.
    """
    _need_data_extra()
    from curate.dataset.diff import changes
    from curate.dataset.diff_text import lines
    from curate.dataset.folder import DatasetFolder

    progress = _Progress()
    try:
        with _mistakes_explained(_Incomparable):
            found = changes(DatasetFolder.opened(old), DatasetFolder.opened(new), report=progress)
    finally:
        progress.close()
    _print_lines(lines(found))
    sys.exit(0 if found.same else 1)


class _Incomparable(click.ClickException):
    exit_code = 2  # as diff has it: 1 means that the two differ


@contextmanager
def _mistakes_explained(kind: type[click.ClickException] = click.ClickException) -> Iterator[None]:
    from curate.errors import CurateError

    try:
        yield
    except (CurateError, PermissionError) as error:
        raise kind(str(error)) from error


def _print_lines(lines: Iterator[str]) -> None:
    """Text of strangers, which may hold letters that the terminal's encoding lacks."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    for line in lines:
        click.echo(line)


@main.command()
@click.argument("dataset", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="NAME",
    help="A model to sample: its folder or Hub id, or its name at the server. Repeatable: they stand side by side.",
)
@click.option("--base-url", metavar="URL", help="Ask an OpenAI-compatible server instead of running vLLM here.")
@click.option("--k", type=click.IntRange(min=1), help="Of pass@k.  [default: 8]")
@click.option("--n", type=click.IntRange(min=1), help="Samples of each problem.  [default: k]")
@click.option("--temperature", type=click.FloatRange(0, 2), help="Of the samples.  [default: 0.6]")
@click.option("--top-p", type=click.FloatRange(0, 1, min_open=True), help="Of the samples.  [default: 0.95]")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Most tokens of an answer.  [default: 16384]")
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), help="Of the samples.  [default: 0]")
@click.option("--resample", is_flag=True, help="Drop the samples of the named models that are there, and draw anew.")
@_workers
@_isolation
@_ray
@click.option(
    "--solve-rate",
    metavar="LEAST:MOST",
    help="Copy to --out the problems of which this share of samples is right, bounds included: 0.125:0.5, or 0.125:.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the copy.")
@click.option("--overwrite", is_flag=True, help="Replace another dataset in the folder --out.")
def difficulty(
    dataset: Path,
    models: tuple[str, ...],
    base_url: str | None,
    resample: bool,
    workers: int | None,
    isolation: str,
    ray: str | None,
    solve_rate: str | None,
    out: Path | None,
    overwrite: bool,
    **chosen: Any,
) -> None:
    """Measure how often models solve the problems of DATASET, and keep those of a band.

    The counts go to difficulty/ in DATASET. Options of sampling that are not given are as they were when the model was
    sampled before. What is there is not sampled again; after an interruption the same command continues. Without
    --model, --solve-rate goes by all models that were sampled, and each of those it goes by must agree.
    """
    _need_data_extra()
    from contextlib import closing, contextmanager
    from functools import partial

    from curate.difficulty import table
    from curate.difficulty.band import Band
    from curate.difficulty.keep_band import refilter
    from curate.difficulty.measure import Sample, Settings, measure
    from curate.errors import CurateError
    from sandbox import Sandbox, SandboxError
    from train.sampling.protocol import SamplerError, Sampling, open_sampler

    if not models and solve_rate is None:
        raise click.UsageError("give a --model to sample, a --solve-rate to filter by, or both")
    if (solve_rate is None) != (out is None):
        raise click.UsageError("--solve-rate and --out belong together: the band, and the folder of what lies in it")

    @contextmanager
    def opened(settings: Settings) -> Iterator[Sample]:
        sampling = Sampling(settings.temperature, settings.top_p, settings.max_tokens)
        with closing(open_sampler(settings.model, base_url)) as sampler:
            yield partial(sampler.sample, sampling=sampling)

    where: dict[str, Any] = {"backend": "ray", "address": ray} if ray else {}
    machine = partial(Sandbox, workers, isolation=isolation, **where)
    asked = {name: value for name, value in chosen.items() if value is not None}
    progress = _Progress(" samples")
    try:
        band = Band.parse(solve_rate) if solve_rate is not None else None
        for model in models:
            measured = measure(dataset, model, asked, opened, machine, resample=resample, report=progress)
            for number, what in ((measured.n_unscored, "could not be judged"), (measured.n_refused, "were refused")):
                if number:
                    click.echo(f"Warning: {model}: {number} samples {what}; the same command tries again", err=True)
        progress.close()
        rows = table.read(dataset)
        if rows:
            _print_solve_rates(rows, models)
        if band is None or out is None:
            return
        manifest = refilter(dataset, out, band, models, overwrite=overwrite)
    except (CurateError, SamplerError, SandboxError, OSError) as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        raise click.ClickException(f"interrupted; the samples are in {dataset}, the same command continues") from None
    finally:
        progress.close()
    kept = sum(count["kept"] for count in manifest["counts"].values())
    click.echo(f"\n{kept} problems in {out}; the others are in the config `rejected`")
    if manifest["solve_rate"]["warning"]:
        click.echo(f"Warning: {manifest['solve_rate']['warning']}", err=True)
    click.echo(f"content hash {manifest['content_hash']}")
    sys.exit(0 if kept else 1)


def _print_solve_rates(rows: list[dict[str, Any]], models: Sequence[str]) -> None:
    """A line for each model, then how many problems have how many correct samples."""
    click.echo(f"{'model':<40}{'problems':>9}{'samples':>9}{'pass@1':>8}{'pass@k':>8}{'cut off':>9}{'no code':>9}")
    for model in models or sorted({row["model"] for row in rows}):
        known = [row for row in rows if row["model"] == model and row["n"]]
        estimated = ([row[name] for row in known if row[name] is not None] for name in ("pass_at_1", "pass_at_k"))
        means = "".join(f"{fmean(values):>8.3f}" if values else f"{'-':>8}" for values in estimated)
        n, cut, bare = (sum(row[name] for row in known) for name in ("n", "n_truncated", "n_no_code"))
        click.echo(f"{model:<40}{len(known):>9}{n:>9}{means}{cut:>9}{bare:>9}")
        spread = Counter((row["n_correct"], row["n"]) for row in known)
        click.echo("  " + ", ".join(f"{correct} of {n}: {number}" for (correct, n), number in sorted(spread.items())))


@main.command()
@click.option("--model", required=True, metavar="NAME", help="Its folder or Hub id, or its name at the server.")
@click.option(
    "--data",
    required=True,
    metavar="DATASET",
    help="Folder of a dataset, or a file, folder or Hub id of LiveCodeBench or HumanEval in their own form.",
)
@click.option("--k", type=click.IntRange(min=1), default=8, show_default=True, help="Samples of each problem.")
@click.option("--window", default="", metavar="FROM..TO", help="Only contests of these days: 2024-08-01..2025-02-01.")
@click.option("--problems", type=click.IntRange(min=1), help="Only so many problems, always the same.  [default: all]")
@click.option("--base-url", metavar="URL", help="Ask an OpenAI-compatible server instead of running vLLM here.")
@click.option("--temperature", type=click.FloatRange(0, 2), default=0.6, show_default=True)
@click.option("--top-p", type=click.FloatRange(0, 1, min_open=True), default=0.95, show_default=True)
@click.option(
    "--max-tokens", type=click.IntRange(min=1), default=16384, show_default=True, help="Most tokens of an answer."
)
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True, help="Of the samples.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="JSON file for the figures and the counts of each problem. Samples go to OUT.samples.jsonl as they come.",
)
@_workers
@_isolation
@_ray
def evaluate(
    model: str,
    data: str,
    k: int,
    window: str,
    problems: int | None,
    base_url: str | None,
    temperature: float,
    top_p: float,
    max_tokens: int,
    seed: int,
    out: Path | None,
    workers: int | None,
    isolation: str,
    ray: str | None,
) -> None:
    """Evaluate a model: pass@1 over k samples of each problem, with a 95% confidence interval, and pass@k.

    With --out, the same command continues after an interruption and samples nothing twice.
    """
    _need_data_extra()
    from contextlib import ExitStack, closing
    from functools import partial

    from curate.dataset.journal import Journal
    from curate.dataset.workspace import write_whole
    from curate.errors import CurateError
    from sandbox import Sandbox, SandboxError
    from train.evaluation.evaluate import evaluate
    from train.evaluation.exercises import exercises
    from train.evaluation.result_file import contents, identity
    from train.sampling.protocol import SamplerError, Sampling, open_sampler

    samples = out and out.with_name(out.name + ".samples.jsonl")
    where: dict[str, Any] = {"backend": "ray", "address": ray} if ray else {}
    progress = _Progress(" samples")
    try:
        sampling = Sampling(temperature, top_p, max_tokens)
        asked = exercises(data, window, problems or 0)
        with ExitStack() as opened:
            if samples:
                samples.parent.mkdir(parents=True, exist_ok=True)
            journal = opened.enter_context(Journal(samples)) if samples else None
            sampler = opened.enter_context(closing(open_sampler(model, base_url)))
            box = opened.enter_context(Sandbox(workers, isolation=isolation, **where))
            found = evaluate(
                asked,
                partial(sampler.sample, sampling=sampling),
                box,
                k=k,
                seed=seed,
                journal=journal,
                settings=[identity(model), asdict(sampling)],
                report=progress,
            )
        if out:
            said = contents(found, model=model, data=data, window=window, sampling=sampling, seed=seed, exercises=asked)
            write_whole(out, json.dumps(said, indent=1) + "\n")
    except (CurateError, SamplerError, SandboxError, OSError) as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        saved = f"; the samples are in {samples}, the same command continues" if samples else "; give --out to continue"
        raise click.ClickException(f"interrupted{saved}") from None
    finally:
        progress.close()
    at_k = "-" if found.pass_at_k is None else f"{found.pass_at_k:.3f}"
    numbers = {
        "problems": str(found.n_problems),
        "samples": str(found.n_samples),
        "pass@1": f"{found.pass_at_1:.3f}",
        "95% interval": f"{found.low:.3f}-{found.high:.3f}",
        f"pass@{k}": at_k,
        "cut off": str(found.n_truncated),
        "no code": str(found.n_no_code),
        "tokens": f"{found.mean_tokens:.0f}",
    }
    click.echo("  ".join(f"{name:>{max(len(name), len(number))}}" for name, number in numbers.items()))
    click.echo("  ".join(f"{number:>{max(len(name), len(number))}}" for name, number in numbers.items()))
    if found.n_unscored:
        click.echo(f"Warning: {found.n_unscored} samples have no verdict and are left out, see above", err=True)
    sys.exit(0 if found.n_samples else 1)


@main.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File, .svg, .png or .pdf.  [default: in the first RUN]",
)
@click.option("--timeline", is_flag=True, help="Draw who was idle when instead of the curves.")
def plot(runs: tuple[str, ...], out: Path | None, timeline: bool) -> None:
    """Draw the curves of training runs, side by side: reward, pass@1, length, entropy, clipping.

    RUN is the folder of a run, finished or not, or LABEL=FOLDER; runs of one label share a colour.
    """
    if find_spec("matplotlib") is None:
        raise click.ClickException("matplotlib not installed. Type: pip install 'curate-code[train]'")
    from train.errors import NoRunError
    from train.run import plot

    found = [plot.Run.parse(run) for run in runs]
    out = out or found[0].folder / ("timeline.svg" if timeline else "curves.svg")
    try:
        (plot.timeline if timeline else plot.curves)(found, out)
    except (NoRunError, OSError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(out)


@main.command()
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the run.  [default: runs/ and CONFIG's name]")
@click.option(
    "--set", "changes", multiple=True, metavar="SECTION.KEY=VALUE", help="Instead of what CONFIG says. Repeatable."
)
@click.option("--resume", is_flag=True, help="Go on after the newest checkpoint in the folder, if it has one.")
@click.option("--overwrite", is_flag=True, help="Start anew where the folder holds a run.")
@click.option("--dry-run", is_flag=True, help="Show the plan and what memory it takes; train nothing.")
def train(
    config: Path, out: Path | None, changes: tuple[str, ...], resume: bool, overwrite: bool, dry_run: bool
) -> None:
    """Train a model on a dataset with GRPO+.

    CONFIG is a TOML file: a preset, the model, the dataset, and what is to differ; see train/config.py for all keys
    and train/presets/ for the presets. Kill it at any moment: the same command with --resume goes on. On several GPUs:
    torchrun --nproc-per-node 8 -m cli train CONFIG.
    """
    _need_train_extra()
    from curate.errors import CurateError
    from sandbox import SandboxError
    from train import config as configuration
    from train.errors import RunError
    from train.run.folder import prepared
    from train.sampling.protocol import SamplerError

    run = out or Path("runs") / config.stem
    first = os.environ.get("RANK", "0") == "0"
    if first:
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # clusters send it before they kill
    try:
        read = configuration.read(config, changes)
        if dry_run:
            from train.run.plan import plan

            for line in plan(read):
                click.echo(line)
            return
        from train import loop

        with prepared(run, read, resume=resume, overwrite=overwrite) if first else nullcontext():
            loop.train(read, run, report=_train_report(read.run.steps))
    except (RunError, CurateError, SamplerError, SandboxError) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:  # such as a full disk
        raise click.ClickException(f"{error}. The same command with --resume goes on.") from error
    except KeyboardInterrupt:
        if not first:
            sys.exit(1)
        raise click.ClickException(f"interrupted; --resume goes on after the last checkpoint in {run}") from None
    finally:
        if first:
            signal.signal(signal.SIGTERM, before)
    if first:
        click.echo(f"model in {run / 'model'}, figures in {run / 'metrics.jsonl'}; see: curate plot {run}")


def _need_train_extra() -> None:
    missing = [name for name in ("torch", "transformers") if find_spec(name) is None]
    if missing:
        raise click.ClickException(f"{', '.join(missing)} not installed. Type: pip install 'curate-code[train]'")
    _need_data_extra()


def _train_report(steps: int) -> Callable[[int, Mapping[str, float]], None]:
    """A line for each step, with the time left."""
    began: list[float] = []

    def report(step: int, found: Mapping[str, float]) -> None:
        began.append(time.monotonic() - found["step_time"])
        left = (time.monotonic() - began[0]) / len(began) * (steps - step)
        shown = {"reward": "reward", "completions/mean_length": "tokens", "completions/clipped_ratio": "cut",
                 "entropy": "entropy", "eval/pass@1": "pass@1", "step_time": "s"}  # fmt: skip
        words = "  ".join(f"{label} {found[name]:.3g}" for name, label in shown.items() if name in found)
        click.echo(f"step {step}/{steps}  {words}  left {timedelta(seconds=round(left))}")

    return report


def _name_and_location(source: str) -> tuple[str, str]:
    name, equals, location = source.partition("=")
    if not (name and equals and location):
        raise click.BadParameter(f"{source!r} is not NAME=LOCATION, such as taco=data/taco", param_hint="--source")
    return name, location


def _need_data_extra() -> None:
    missing = [
        name
        for name in ("datasketch", "huggingface_hub", "jinja2", "pandas", "pyarrow", "xxhash")
        if find_spec(name) is None
    ]
    if missing:
        raise click.ClickException(f"{', '.join(missing)} not installed. Type: pip install 'curate-code[data]'")


def _print_funnel(counts: dict[str, Any]) -> None:
    """One line per source, then what was rejected, by stage and reason."""
    stages = ("parse", "filter", "verify", "dedup", "decontaminate", "strength")
    click.echo(
        f"{'source':<16}{'read':>8}" + "".join(f"{stage[:8]:>9}" for stage in stages) + f"{'kept':>8}{'verified':>10}"
    )
    for name, count in counts.items():
        lost = (-sum(count["rejected"].get(stage, {}).values()) for stage in stages)
        numbers = "".join(f"{number or '':>9}" for number in lost)
        click.echo(f"{name:<16}{count['read']:>8}{numbers}{count['kept']:>8}{count['verified']:>10}")
    for name, count in counts.items():
        for stage, reasons in count["rejected"].items():
            click.echo(f"  {name} {stage}: " + ", ".join(f"{reason} {n}" for reason, n in reasons.items()))


def _print_contamination(sets: dict[str, Any]) -> None:
    """One line per evaluation set; a warning where more was found in it than is plausible."""
    click.echo(f"{'against':<32}{'items':>8}{'rows':>10}{'removed':>9}{'rate':>9}{'review':>8}")
    for name, count in sets.items():
        label = f"{name} {count['window'] or ''}"
        numbers = f"{count['items']:>8}{count['rows']:>10}{count['removed']:>9}{count['removal_rate']:>9.2%}"
        click.echo(f"{label:<32}{numbers}{count['review']:>8}")
        if count["warning"]:
            click.echo(f"Warning: {name}: {count['warning']}", err=True)


class _Progress:
    """Shows how far a stage is, with rate and time left: a bar on a terminal, elsewhere a line now and then."""

    SECONDS_BETWEEN_LINES = 10.0

    def __init__(self, unit: str = " problems") -> None:
        from tqdm import tqdm

        self._unit = unit

        self._tqdm = tqdm
        self._bar: tqdm[Any] | None = None  # only on a terminal
        self._stage = ""
        self._began = self._printed = 0.0
        self._initial = 0

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        if stage != self._stage:
            self.close()
            self._stage, self._initial = stage, done
            self._began = self._printed = time.monotonic()
            if sys.stderr.isatty():
                self._bar = self._tqdm(desc=stage, total=total, initial=done, unit=self._unit, file=sys.stderr)
        now = time.monotonic()
        if self._bar is not None:
            self._bar.update(done - self._bar.n)
        elif done == total or now - self._printed >= self.SECONDS_BETWEEN_LINES:
            self._printed = now
            line = self._tqdm.format_meter(
                done, total or 0, now - self._began, ncols=0, prefix=stage, unit=self._unit, initial=self._initial
            )
            click.echo(line, err=True)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


if __name__ == "__main__":  # torchrun -m cli
    main()
