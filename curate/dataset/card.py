"""The dataset card, README.md of the output folder. Its numbers come from the manifest and the tables."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from curate.dataset.contamination_hits import tabulate_set_counts
from curate.dataset.dataset import Dataset
from curate.dataset.evidence import EVIDENCE, EVIDENCE_COLUMNS
from curate.dataset.output_folder import write_atomic
from curate.dataset.query import query, read_table
from curate.dataset.writer import REJECTED_COLUMNS
from curate.ingestion import import_source_module, source_names
from curate.json_records import from_json, to_json
from curate.manifest import Manifest, Plan, StepPlan
from curate.options import BuildOptions
from curate.problem import COLUMNS
from curate.text.document import (
    Block,
    Cell,
    Code,
    Markdown,
    Seconds,
    Section,
    Table,
    Text,
    escape_markdown,
    format_code,
    render_markdown,
)

CARD = "README.md"
DIFFICULTY = "difficulty"  # the table of solve rates
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_INTRODUCTION = """\
{kept} programming problems with tests. For {verified} of them a reference solution was executed in a sandbox and
passed every test, twice; the others come from sources that publish no solutions (`verified` is false). Rejected rows
are in the config `rejected`, each with its reason. The config `evidence` has their statements and, for rows whose
solutions failed, the test, the expected and the actual outputs. It has the same for kept rows whose tests may have
several correct outputs.

```python
from datasets import load_dataset

problems = load_dataset(DIR, split='train')
rejected = load_dataset(DIR, 'rejected', split='train')
evidence = load_dataset(DIR, 'evidence', split='train')
```

{questions}`report.html` shows the rows by result, the strength of the tests and the removed rows; `report.json` has its
numbers."""
_QUESTIONS = """\
There are also {n} math problems, with an expected answer instead of tests. For {verified} of them,
math-verify can parse the answer and finds it equal to itself, which does not show that the answer is correct.

"""
_COUNT_QUESTIONS = "SELECT count(*) AS n, count(*) FILTER (verified) AS verified FROM rows WHERE expected_answer <> ''"
_CONTAMINATION = """\
Rows that contain an item of these evaluation sets were removed: same key or address, same text, a short item in
one piece, or at least half of an item's word 8-grams without boilerplate. Rows with a fifth to a half of the
8-grams stayed. The config `contamination` has all hits of both kinds with the item, the score and the words in
common."""
_TESTS_AND_TIME = """
    SELECT source, count(*), median(n_tests), max(n_tests), median(cpu_seconds), max(cpu_seconds) FROM rows
    WHERE ifnull(expected_answer, '') = '' GROUP BY source ORDER BY source
"""
_RATES = """
    SELECT model, count(*) AS problems, sum(n) AS samples, avg(pass_at_1) AS pass_at_1, avg(pass_at_k) AS pass_at_k,
        sum(n_truncated) / sum(n) AS truncated, min(k) AS k, min(temperature) AS temperature, min(top_p) AS top_p,
        min(max_tokens) AS max_tokens
    FROM rows WHERE n > 0 GROUP BY model ORDER BY model
"""
_RATE_COLUMNS = ("model", "n", "n_truncated", "pass_at_1", "pass_at_k", "k", "temperature", "top_p", "max_tokens")


def write(manifest: Manifest, folder: Path) -> None:
    """Write or replace the card in `folder`, which must contain the tables. Raises CurateError if a file is damaged.

    The card of a dataset that curate did not build describes only the removals.
    """
    if manifest.build is None:
        counts = f"{manifest.n_kept} of {manifest.n_read} rows remain. Content hash `{manifest.content_hash}`."
        title = Section("A dataset without evaluation items", [Text(Markdown(counts))])
        sections = _describe_contamination(manifest)
    else:
        dataset = Dataset(folder, manifest)
        title = Section("Verified programming problems", [Text(Markdown(_format_introduction(manifest, dataset)))])
        sections = _describe_dataset(manifest, dataset)
    lines = [*_format_front_matter(manifest, folder), *render_markdown([title], level=1), *render_markdown(sections)]
    write_atomic(folder / CARD, "\n".join(lines).rstrip("\n") + "\n")


def _format_introduction(manifest: Manifest, dataset: Dataset) -> str:
    n = verified = 0
    if "expected_answer" in dataset.read_columns("data"):
        (counts,) = query(_COUNT_QUESTIONS, rows=read_table(dataset, "data", ("verified", "expected_answer")))
        n, verified = counts["n"], counts["verified"]
    questions = _QUESTIONS.format(n=n, verified=verified) if n else ""
    return _INTRODUCTION.format(kept=manifest.n_kept - n, verified=manifest.n_verified - verified, questions=questions)


def list_configs(manifest: Manifest, folder: Path) -> list[dict[str, Any]]:
    """Return the `configs` of the front matter: the tables with rows. `datasets` opens no other table."""
    pattern = "data/train-*.parquet"
    if manifest.build is None:
        suffix = next(path.suffix for path in sorted((folder / "data").rglob("*")) if path.is_file())
        pattern = f"data/**/*{suffix}"
    entries: list[dict[str, Any]] = [{"config_name": "default", "data_files": pattern, "default": True}]
    dataset = Dataset(folder)
    for name in ("rejected", EVIDENCE, "contamination", DIFFICULTY):
        if dataset.count(name):
            entries.append({"config_name": name, "data_files": f"{name}/train-*{dataset.list_files(name)[0].suffix}"})
    return entries


def _format_front_matter(manifest: Manifest, folder: Path) -> Iterator[str]:
    yield "---"
    if manifest.build is not None:
        size = next((name for most, name in _SIZES if manifest.n_kept < most), "n>1M")
        hub_ids = [id for name in manifest.counts if (id := import_source_module(name).HUB_ID)]
        yield "pretty_name: Verified programming problems"
        yield "license: other"
        yield "task_categories: [text-generation]"
        yield "tags: [code, reinforcement-learning, rlvr]"
        yield f"size_categories: [{size}]"
        yield f"source_datasets: {json.dumps(hub_ids)}"
    yield "configs:"
    for entry in list_configs(manifest, folder):
        values = [f"{name}: {'true' if value is True else value}" for name, value in entry.items()]
        yield f"- {values[0]}"
        yield from (f"  {value}" for value in values[1:])
    yield from ("---", "")


def _describe_dataset(manifest: Manifest, dataset: Dataset) -> Iterator[Section]:
    counts = manifest.counts
    funnel = [(name, n.n_read, n.n_rejected, n.n_kept, n.n_verified) for name, n in counts.items()]
    reasons = [
        (name, stage, reason, rows)
        for name, count in counts.items()
        for stage, reasons in count.rejected.items()
        for reason, rows in reasons.items()
    ]
    funnel_table = Table(["source", "read", "rejected", "kept", "verified"], funnel)
    reason_table = Table(["source", "stage", "reason", "rows"], reasons)
    yield Section("Rows by result", [funnel_table, reason_table])
    yield from _describe_contamination(manifest)
    yield _describe_tests(dataset)
    plan = manifest.plan
    steps = "\n".join(map(_describe_step, plan.steps))
    hashes = f"- curate-code {plan.curate_version}, content hash `{manifest.content_hash}`, reward hash "
    hashes += f"`{manifest.reward_hash}`."
    beginning = list(_describe_merge(manifest)) if plan.datasets else []
    made = [] if plan.datasets else [_describe_build(plan)]
    making = Text(Markdown("\n".join(filter(None, [*made, steps, hashes]))))
    yield Section("How it was made", [*beginning, making])
    note = "Licences are as stated by the sources; statements may have other copyright holders."
    files = Table(["source", "licence", "files", "sha256"], list(_list_input_files(manifest)))
    yield Section("Sources", [files], note)
    evidence = "Config `evidence`, with texts truncated to 4 KiB; the content hash omits this table:"
    rejected = Text(Markdown("Config `rejected`:"))
    columns: list[Block] = [
        _tabulate_columns(COLUMNS),
        rejected,
        _tabulate_columns(REJECTED_COLUMNS),
        Text(Markdown(evidence)),
    ]
    yield Section("Columns", [*columns, _tabulate_columns(EVIDENCE_COLUMNS)])
    yield from _describe_difficulty(manifest, dataset)


def _describe_contamination(manifest: Manifest) -> Iterator[Section]:
    sets = manifest.decontamination
    if sets:
        warnings = [Text(f"{name}: {count.warning}", "warning") for name, count in sets.items() if count.warning]
        table = tabulate_set_counts(to_json(sets))
        yield Section("Contamination", [Text(Markdown(_CONTAMINATION)), table, *warnings])


def _describe_tests(dataset: Dataset) -> Section:
    columns = ("source", "n_tests", "cpu_seconds", "expected_answer")
    rows = [
        (source, problems, tests, max_tests, *(None if value is None else Seconds(value) for value in seconds))
        for source, problems, tests, max_tests, *seconds in (
            row.values() for row in query(_TESTS_AND_TIME, rows=read_table(dataset, "data", columns))
        )
    ]
    note = "CPU seconds are those of the reference over all tests of a problem, on the machine of this build."
    header = ["source", "problems", "median tests", "max tests", "median CPU s", "max CPU s"]
    return Section("Tests and time", [Table(header, rows)], note)


def _describe_difficulty(manifest: Manifest, dataset: Dataset) -> Iterator[Section]:
    """Yield the section on solve rates, averaged over the problems with a verdict; none if no model was sampled."""
    if not dataset.count(DIFFICULTY):
        return
    rows: list[list[Cell]] = []
    for rates in query(_RATES, rows=read_table(dataset, DIFFICULTY, _RATE_COLUMNS)):
        at_k = "-" if rates["pass_at_k"] is None else f"{rates['pass_at_k']:.3f} (k={rates['k']})"
        estimates = [f"{rates['pass_at_1']:.3f}", at_k, f"{rates['truncated']:.1%}"]
        samples = rates["samples"] / rates["problems"]
        settings = [rates["temperature"], rates["top_p"], rates["max_tokens"]]
        rows.append([rates["model"], rates["problems"], samples, *estimates, *settings])
    header = ["model", "problems", "samples per problem", "pass@1", "pass@k", "truncated", "temperature", "top_p"]
    note = "Completions of models, judged by all tests; the config `difficulty` has the results of each problem."
    blocks: list[Text | Table] = [Text(Markdown(note)), Table([*header, "max tokens"], rows)]
    if chosen := manifest.solve_rate:
        text = f"Only problems with a solve rate of {chosen.band} (both included) were kept: "
        blocks.append(Text(f"{text}{', '.join(chosen.models)}. The table above covers all sampled problems."))
    yield Section("Difficulty", blocks)


def _describe_merge(manifest: Manifest) -> Iterator[Text | Table]:
    threshold = manifest.plan.configuration["dedup"]
    rows = [(number, m.rows, m.n_kept, Code(m.content_hash)) for number, m in enumerate(manifest.merged, start=1)]
    yield Text(
        "Merged from the datasets below. Of problems with the same text, or with a word 5-gram Jaccard similarity of\n"
        f"at least {threshold}, one stayed: a verified one first, then the one with most tests, then the one from the\n"
        "first dataset. Problems whose titles, functions or tests differ all stayed."
    )
    yield Table(["dataset", "rows", "stayed", "content hash"], rows)
    for number, dataset in enumerate(manifest.plan.datasets, start=1):
        merged = "- Merged from other datasets, whose plans are in the manifest."
        steps = [
            merged if dataset.plan.datasets else _describe_build(dataset.plan),
            *map(_describe_step, dataset.plan.steps),
        ]
        yield Text(f"Dataset {number}:")
        yield Text(Markdown("\n".join(steps)))
    yield Text("The merged dataset:")


def _describe_build(plan: Plan) -> str:
    options = from_json(BuildOptions, plan.configuration, ignore_unknown=True)
    stages = [stage["name"] for stage in plan.configuration.get("stages", ())]
    lines = [
        f"At least {options.min_tests} distinct tests, a statement, no pictures, not interactive.",
        f"Up to {options.tries} solutions per problem ({', '.join(options.reference_languages)}), shortest "
        "first, until one passed every test; that one was run a second time with another seed.",
        f"Up to {options.cross_checks} further solutions were run on all tests, to check whether they agree.",
        f"Up to {options.mutants} wrong programs were made from each reference, to measure the share that its tests "
        f"reject; required share: {options.min_test_strength or 'none'}.",
        f"Problems of sources without solutions: {options.no_reference}.",
        "Rows with the same text as a kept row, or with a word 5-gram Jaccard similarity of at least "
        f"{options.dedup} to one, were removed, unless titles, functions or tests differ.",
        *([f"Custom stages: {', '.join(stages)}."] if stages else []),
        f"Seed {options.seed}.",
    ]
    return "\n".join(f"- {escape_markdown(line)}" for line in lines)


def _describe_step(step: StepPlan) -> str:
    options = step.options
    if step.step == "filter":
        conditions = "; ".join(map(format_code, options["where"]))
        return f"- Filtered: only rows that fulfil all of these conditions: {conditions}."
    others = " or ".join(name for name in ("train", *options["sizes"]) if name != options["part"])
    return (
        f"- Split: this is the part {options['part']}. No row is the same problem as a row of {others}, or has a word "
        f"5-gram Jaccard similarity of at least {options['similarity']} to one. Seed {options['seed']}."
    )


def _list_input_files(manifest: Manifest) -> Iterator[tuple[Cell, ...]]:
    for name, files in manifest.plan.inputs.items():
        source = import_source_module(name)
        title = source.TITLE if name in source_names() else f"{source.TITLE} ({name})"
        link = Markdown(f"[{title}](https://huggingface.co/datasets/{source.HUB_ID})") if source.HUB_ID else title
        options = manifest.plan.configuration["source_options"].get(name, {})
        for file in files:
            yield link, options.get("licence", source.LICENCE), file.name, Code(file.sha256)


def _tabulate_columns(columns: Mapping[str, tuple[str, str]]) -> Table:
    rows = [(name, kind.replace("?", " or null"), Markdown(text)) for name, (kind, text) in columns.items()]
    return Table(["column", "type", "meaning"], rows)
