"""Exports of a finished dataset in the format of a trainer or a tool, streamed row by row.

An export is written to a temporary folder next to the output folder, and renamed when complete. Its left_out.jsonl
lists the rows that were not exported.
"""

import json
import pkgutil
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO, cast

from curate import exports
from curate.dataset import output_folder
from curate.dataset.dataset import Dataset
from curate.dataset.integrity import check_trusted
from curate.dataset.writer import ROW_GROUP_BYTES, ROW_GROUP_ROWS
from curate.errors import CurateError, PlanMismatchError
from curate.json_records import to_json
from curate.manifest import MANIFEST
from curate.problem import Problem
from curate.progress import Progress, ignore_progress
from curate.prompt import Chat, PromptFormat
from curate.reading.tables import hash_path
from curate.trust import MEANINGS, TrustPolicy
from rewards.case_selection import DEFAULT_MAX_CASES, STRATEGIES, select_cases
from sandbox import Limits, Program, Suite, json_codec
from sandbox.judge_record import Record

if TYPE_CHECKING:
    import pyarrow as pa

Manifest = dict[str, Any]
Row = Mapping[str, Any]
EXCLUDED = "left_out.jsonl"
QUESTION_REASON = "mathematics"
_QUESTIONS = {QUESTION_REASON: "math problems; exports have only programming problems, but `curate train` accepts both"}
UNSUPPORTED_LIMITS_MESSAGE = "limits other than wall time and memory, which a record cannot express"


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """The options that, together with the dataset, determine the content of an export."""

    select: str = "strongest"  # strategy that selects the tests: one of STRATEGIES
    budget: int | None = None  # maximum number of tests; None: DEFAULT_MAX_CASES, or the maximum of the target
    include: tuple[str, ...] = ()  # rows to export besides trusted ones: values of curate.trust.INCLUDE_CHOICES
    verl_data_source: str = "taco"
    prompt: PromptFormat = field(default_factory=PromptFormat)  # exports only record its chat template arguments
    name: str = ""  # name of the package, for target verifiers; "": the name of the output folder

    def __post_init__(self) -> None:
        if self.select not in STRATEGIES:
            raise ValueError(f"select must be one of {', '.join(STRATEGIES)}, not {self.select!r}")
        if self.budget is not None and self.budget < 1:
            raise ValueError(f"budget must be at least 1, not {self.budget}")
        TrustPolicy.from_choices(self.include)

    @property
    def max_tests(self) -> int:
        return self.budget or DEFAULT_MAX_CASES

    @property
    def trust(self) -> TrustPolicy:
        return TrustPolicy.from_choices(self.include)


class ExportTarget(Protocol):
    """The format of a trainer or a tool. The problems passed to it contain only the selected tests.

    A target with a maximum number of tests also has apply_target_limits(options). It returns the options with this
    maximum, or raises CurateError if they request more tests.
    """

    @property
    def EXCLUSION_REASONS(self) -> Mapping[str, str]:
        """The reasons for leaving problems out, with their meanings."""

    def find_unsupported_reason(self, problem: Problem, options: ExportOptions) -> str | None:
        """Return one of EXCLUSION_REASONS if this format cannot express the problem; None if it can."""

    def write(self, problems: Iterable[Problem], folder: Path, options: ExportOptions) -> None:
        """Write the files, and a README.md that documents their use."""


def list_targets() -> list[str]:
    """Return the names of all targets: the names of the files in curate/exports."""
    names = (module.name for module in pkgutil.iter_modules(exports.__path__))
    return sorted(name for name in names if not name.startswith("_"))


def load_target(name: str) -> ExportTarget:
    return cast(ExportTarget, import_module(f"curate.exports.{name}"))


def list_exclusion_reasons(target_name: str) -> dict[str, str]:
    """Return the reasons for leaving rows out of an export, with their meanings."""
    return {**MEANINGS, **_QUESTIONS, **load_target(target_name).EXCLUSION_REASONS}


def export(
    dataset: Path,
    target_name: str,
    out: Path,
    options: ExportOptions,
    *,
    overwrite: bool = False,
    progress: Progress = ignore_progress,
) -> Manifest:
    """Export a dataset into the folder `out` and return the manifest of the export.

    dataset      the folder of a finished dataset
    target_name  one of list_targets()
    overwrite    whether to replace an earlier export in the folder
    progress     progress callback

    Leaves out rows that the target cannot express, and untrusted rows (curate/trust.py) unless the options include
    them. Raises CurateError if the dataset is unfinished or altered, if no row can be exported, or if `out` has other
    content.
    """
    target = load_target(target_name)
    options = _complete_options(target_name, out, options)
    plan = _build_plan(dataset, target_name, options)
    if out.resolve().is_relative_to(dataset.resolve()) or dataset.resolve().is_relative_to(out.resolve()):
        raise CurateError(f"{out} contains the dataset, or is inside it. Choose another --out.")
    left_out: Counter[str] = Counter()
    with _create_temporary_folder(out) as folder:
        _check_replaceable(out, overwrite=overwrite)
        check_trusted(dataset, options.trust, read_rows=True, progress=progress)
        stored = Dataset(dataset).require_problems()
        with (folder / EXCLUDED).open("w", encoding="utf-8") as file:
            target.write(_select_exportable(stored, target, options, left_out, file, progress), folder, options)
        exported = len(stored) - left_out.total()
        if not exported:
            meanings = list_exclusion_reasons(target_name)
            causes = "; ".join(f"{reason}: {meanings[reason]}" for reason in left_out) or "The dataset has no rows"
            raise CurateError(f"{dataset}: no row can be exported to {target_name}. {causes}.")
        manifest = {
            **plan,
            "counts": {"rows": len(stored), "exported": exported, "left_out": dict(sorted(left_out.items()))},
            "curate": metadata.version("curate-code"),
        }
        output_folder.write_atomic(folder / MANIFEST, json.dumps(manifest, indent=2) + "\n")
        if out.exists():
            shutil.rmtree(out)
        folder.rename(out)
    return manifest


def _select_exportable(
    stored: Dataset,
    target: ExportTarget,
    options: ExportOptions,
    left_out: "Counter[str]",
    file: TextIO,
    progress: Progress,
) -> Iterator[Problem]:
    """Yield the rows to export, with their selected tests.

    Adds the excluded rows to the counts `left_out`, and writes their ids and reasons to `file` as JSON Lines.
    """
    for row in range(len(stored)):
        problem = stored.load(row)
        problem = replace(problem, tests=_select_tests(problem, options))
        progress("export", row + 1, len(stored))
        reason = options.trust.find_exclusion_reason(
            verified=problem.verified, suspect=problem.multi_answer_suspect, checker=problem.tests.checker
        ) or (QUESTION_REASON if problem.expected_answer else target.find_unsupported_reason(problem, options))
        if reason is None:
            yield problem
        else:
            left_out[reason] += 1
            file.write(json.dumps({"id": problem.id, "reason": reason}) + "\n")


def find_finished_export(dataset: Path, target_name: str, out: Path, options: ExportOptions) -> Manifest | None:
    """Return the manifest of the export in `out` if it has this dataset and these options; None otherwise.

    Raises CurateError if the dataset is unfinished.
    """
    plan = _build_plan(dataset, target_name, _complete_options(target_name, out, options))
    # The round trip turns tuples into lists, as in the stored manifest.
    wanted = json.loads(json.dumps({**plan, "curate": metadata.version("curate-code")}))
    try:
        manifest: Manifest = json.loads((out / MANIFEST).read_text())
        return manifest if all(manifest[name] == value for name, value in wanted.items()) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _build_plan(dataset: Path, to: str, options: ExportOptions) -> Manifest:
    """Return the entries of an export's manifest that identify its dataset and its options."""
    before = output_folder.read_manifest(dataset)
    names = {
        "content_hash": before.content_hash,
        "reward_hash": before.reward_hash,
        "manifest_sha256": hash_path(dataset / MANIFEST),
    }
    return {"export": {"to": to, **asdict(options), "prompt": to_json(options.prompt)}, "dataset": names}


def _complete_options(to: str, out: Path, options: ExportOptions) -> ExportOptions:
    target: Any = load_target(to)
    limited = target.apply_target_limits(options) if hasattr(target, "apply_target_limits") else options
    return replace(limited, budget=limited.max_tests, name=limited.name or out.resolve().name)


def _select_tests(problem: Problem, options: ExportOptions) -> Suite:
    try:
        return select_cases(problem.tests, options.select, budget=options.max_tests, strongest=problem.strongest_tests)
    except ValueError as error:
        raise CurateError(f"{problem.id}: {error}. Build the dataset again.") from error


def _check_replaceable(out: Path, *, overwrite: bool) -> None:
    """Raise CurateError unless `out` is missing, empty, or an export that may be overwritten."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    try:
        is_export = "export" in json.loads((out / MANIFEST).read_text())
    except (OSError, ValueError):
        is_export = False
    if not is_export:
        raise CurateError(f"{out} exists and is not an export of curate. Choose another --out.")
    if not overwrite:
        raise PlanMismatchError(
            f"{out} already holds an export. Choose another --out, or add --overwrite to replace it."
        )


@contextmanager
def _create_temporary_folder(out: Path) -> Iterator[Path]:
    """Lock `out` and yield an empty folder next to it. Deletes the folder afterwards, unless it was renamed.

    Raises CurateError while another export to `out` is running.
    """
    folder, lock = (out.resolve().with_name(f".{out.resolve().name}.{kind}") for kind in ("new", "lock"))
    with output_folder.lock_output(out, lock, temporary=True):
        # An earlier export may have been killed before it removed the folder.
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def make_conversation(problem: Problem, prompt: PromptFormat) -> Chat:
    """Return the prompt of a problem: the system message, if any, and the user message."""
    return prompt.build_chat(problem.statement, problem.starter_code, problem.tests)


def make_user_message(problem: Problem, prompt: PromptFormat) -> str:
    """Return the text of the user message that asks for a solution."""
    return make_conversation(problem, prompt)[-1]["content"]


def collect_common_values(problem: Problem) -> dict[str, Any]:
    """Return the values of the columns that most formats have."""
    return {
        "id": problem.id,
        "source": problem.source,
        "reference": problem.reference and problem.reference.source,
        "licence": problem.licence,
    }


def write_readme(folder: Path, text: str, prompt: PromptFormat, template_instruction: str) -> None:
    """Write README.md, with a note about chat template arguments if the prompt format has any.

    template_instruction: a sentence on passing these arguments to the trainer
    """
    if prompt.template_arguments:
        arguments = ", ".join(f"{name} = {json.dumps(value)}" for name, value in prompt.template_arguments.items())
        text += (
            f"\nThe prompts are meant for the chat template with {arguments}. Rows cannot hold such arguments, so the "
            f"manifest only records them. {template_instruction}\n"
        )
    (folder / "README.md").write_text(text)


def has_nondefault_limits(suite: Suite) -> bool:
    """Return whether the suite has limits that a record cannot express."""
    default = Limits()
    return replace(suite.limits, wall_seconds=default.wall_seconds, memory_mb=default.memory_mb) != default


def make_suite_record(suite: Suite) -> dict[str, Any]:
    """Return the fields of a suite in an input record of `curate judge`."""
    record: dict[str, Any] = json_codec.encode(Record.from_submission("", Program(""), suite))
    return {name: value for name, value in record.items() if name not in ("id", "code", "language")}


def get_conversation_type() -> "pa.DataType":
    """Return the Arrow type of a column of conversations."""
    import pyarrow as pa

    return pa.list_(pa.struct({"role": pa.string(), "content": pa.string()}))


def write_parquet(rows: Iterable[Row], schema: "pa.Schema", path: Path, *, tests: Callable[[Row], str]) -> None:
    """Write the columns of the schema. Memory holds one row group.

    tests: returns the tests of a row as text; their length is the estimated size of the row
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    group: list[Row] = []
    n_bytes = 0
    with pq.ParquetWriter(path, schema, compression="zstd", write_page_index=True) as writer:
        for row in rows:
            group.append(row)
            n_bytes += len(tests(row))
            if n_bytes >= ROW_GROUP_BYTES or len(group) >= ROW_GROUP_ROWS:
                writer.write_table(pa.Table.from_pylist(group, schema=schema))
                group, n_bytes = [], 0
        if group:
            writer.write_table(pa.Table.from_pylist(group, schema=schema))
