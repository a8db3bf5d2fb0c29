"""Write the dataset card, README.md of the output folder. Every number in it comes from the build."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from curate.dataset.dataset import Dataset
from curate.dataset.evidence import EVIDENCE, EVIDENCE_COLUMNS
from curate.dataset.writer import REJECTED_COLUMNS
from curate.ingestion import source_module, source_names
from curate.json_records import from_json
from curate.manifest import Manifest, Plan, SourceCounts, StepPlan
from curate.options import BuildOptions
from curate.problem import COLUMNS

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


def write(manifest: Manifest, folder: Path) -> None:
    """Write the card of the dataset in `folder`, which must already contain the Parquet files."""
    sections = (
        _front_matter(manifest, folder),
        _introduction(manifest),
        _funnel(manifest.counts),
        contamination_section(manifest),
        _tests_and_time(folder),
        _making(manifest),
        _provenance(manifest),
        _columns(),
    )
    text = "\n".join(line for section in sections for line in section)
    (folder / "README.md").write_text(text.rstrip("\n") + "\n")


def _front_matter(manifest: Manifest, folder: Path) -> list[str]:
    size = next((name for most, name in _SIZES if manifest.n_kept < most), "n>1M")
    hub_ids = [id for name in manifest.counts if (id := source_module(name).HUB_ID)]
    return [
        "---",
        "pretty_name: Verified programming problems",
        "license: other",
        "task_categories: [text-generation]",
        "tags: [code, reinforcement-learning, rlvr]",
        f"size_categories: [{size}]",
        f"source_datasets: {json.dumps(hub_ids)}",
        *config_lines(manifest, folder),
        "---",
        "",
    ]


def configs(manifest: Manifest, folder: Path) -> list[dict[str, Any]]:
    """Return the front matter's `configs`: the tables that have rows. `datasets` opens only tables that are listed."""
    pattern = "data/train-*.parquet"
    if manifest.build is None:
        suffix = next(path.suffix for path in sorted((folder / "data").rglob("*")) if path.is_file())
        pattern = f"data/**/*{suffix}"
    entries: list[dict[str, Any]] = [{"config_name": "default", "data_files": pattern, "default": True}]
    dataset = Dataset(folder)
    for name in ("rejected", EVIDENCE, "contamination"):
        if dataset.count(name):
            entries.append({"config_name": name, "data_files": f"{name}/train-*{dataset.files(name)[0].suffix}"})
    return entries


def config_lines(manifest: Manifest, folder: Path) -> list[str]:
    """Return the lines of `configs` in the front matter."""
    lines = ["configs:"]
    for entry in configs(manifest, folder):
        values = [f"{name}: {'true' if value is True else value}" for name, value in entry.items()]
        lines += [f"- {values[0]}", *(f"  {value}" for value in values[1:])]
    return lines


def _introduction(manifest: Manifest) -> list[str]:
    return [
        "# Verified programming problems",
        "",
        f"{manifest.n_kept} programming problems with tests. For {manifest.n_verified} of them a reference solution "
        "was executed in a sandbox and passed every test, twice; the others come from sources that publish no "
        "solutions (`verified` is false). Rows that fell out are in the config `rejected`, each with its reason. The",
        "config `evidence` has their statements and, for rows whose solutions failed, the test, the expected and the",
        "actual outputs. It has the same for rows that stay and may have several right answers.",
        "",
        "```python",
        "from datasets import load_dataset",
        "",
        "problems = load_dataset(DIR, split='train')",
        "rejected = load_dataset(DIR, 'rejected', split='train')",
        "evidence = load_dataset(DIR, 'evidence', split='train')",
        "```",
        "",
        "`report.html` shows what became of the rows, how strong the tests are and what was removed; `report.json` has",
        "its numbers.",
        "",
    ]


def _funnel(counts: Mapping[str, SourceCounts]) -> list[str]:
    rows = [(name, count.n_read, count.n_rejected, count.n_kept, count.n_verified) for name, count in counts.items()]
    return [
        "## What became of the rows",
        "",
        *_table(["source", "read", "rejected", "kept", "verified"], rows),
        "",
        *_table(["source", "stage", "reason", "rows"], _reasons(counts)),
        "",
    ]


def _reasons(counts: Mapping[str, SourceCounts]) -> list[tuple[Any, ...]]:
    return [
        (name, stage, reason, rows)
        for name, count in counts.items()
        for stage, reasons in count.rejected.items()
        for reason, rows in reasons.items()
    ]


def contamination_section(manifest: Manifest) -> list[str]:
    """Return the section on evaluation sets; it is empty if nothing was compared."""
    sets = manifest.decontamination
    if not sets:
        return []
    header = ["evaluation set", "items", "rows compared", "removed", "rate", "by rule", "to be looked at"]
    rows = [
        (
            f"{name} {count.window or ''}".strip(),
            count.items,
            count.rows,
            count.removed,
            f"{count.removal_rate:.2%}",
            ", ".join(f"{rule} {n}" for rule, n in count.removed_by_rule.items()) or "-",
            count.n_to_review,
        )
        for name, count in sets.items()
    ]
    return [
        "## Contamination",
        "",
        "Rows that hold an item of these evaluation sets were removed: same key or address, same text, a short item in",
        "one piece, or at least half of an item's runs of eight words without boilerplate. The config `contamination`",
        "has every hit with its item, score and the words in common, and those of a fifth to a half, which stayed.",
        "",
        *_table(header, rows),
        "",
        *(f"**{name}: {count.warning}**\n" for name, count in sets.items() if count.warning),
    ]


def _tests_and_time(folder: Path) -> list[str]:
    import pandas as pd

    problems = pd.read_parquet(folder / "data", columns=["source", "n_tests", "cpu_seconds"])
    rows = (
        (
            source,
            len(group),
            f"{group['n_tests'].median():g}",
            group["n_tests"].max(),
            _seconds(group["cpu_seconds"].median()),
            _seconds(group["cpu_seconds"].max()),
        )
        for source, group in problems.groupby("source")
    )
    return [
        "## Tests and time",
        "",
        "CPU seconds are those of the reference over all tests of a problem, on the machine of this build.",
        "",
        *_table(["source", "problems", "median tests", "most tests", "median CPU s", "most CPU s"], rows),
        "",
    ]


def _seconds(value: float) -> str:
    return "-" if value != value else f"{value:.2f}"  # nan: nothing of this source was executed


def _making(manifest: Manifest) -> list[str]:
    beginning = _merging(manifest) if manifest.plan.datasets else _building(manifest.plan)
    return [
        "## How it was made",
        "",
        *beginning,
        *map(_step, manifest.plan.steps),
        f"- curate-code {manifest.plan.curate_version}, content hash `{manifest.content_hash}`, reward hash "
        f"`{manifest.reward_hash}`.",
        "",
    ]


def _merging(manifest: Manifest) -> list[str]:
    """Describe a merge, and how each of the datasets was made."""
    threshold = manifest.plan.configuration["dedup"]
    rows = [(number, m.rows, m.n_kept, f"`{m.content_hash}`") for number, m in enumerate(manifest.merged, start=1)]
    lines = [
        "Merged from the datasets below. Of problems with the same text, or with a word 5-gram Jaccard similarity of",
        f"at least {threshold}, the one stayed that is verified, then the one with most tests, then the one from the",
        "first dataset; problems whose titles, functions or tests differ all stayed.",
        "",
        *_table(["dataset", "rows", "stayed", "content hash"], rows),
    ]
    for number, dataset in enumerate(manifest.plan.datasets, start=1):
        if dataset.plan.datasets:
            beginning = ["- Merged from other datasets, whose plans are in the manifest."]
        else:
            beginning = _building(dataset.plan)
        lines += ["", f"Dataset {number}:", "", *beginning, *map(_step, dataset.plan.steps)]
    return [*lines, "", "The merged dataset:", ""]


def _building(plan: Plan) -> list[str]:
    options = from_json(BuildOptions, plan.configuration, ignore_unknown=True)
    stages = [stage["name"] for stage in plan.configuration.get("stages", ())]
    return [
        f"- At least {options.min_tests} distinct tests, a statement, no pictures, not interactive.",
        f"- Up to {options.tries} solutions per problem ({', '.join(options.reference_languages)}), shortest "
        "first, until one passed every test; that one was run a second time with another seed.",
        f"- {options.cross_checks} further solutions were run on all tests, to see whether they agree.",
        f"- Up to {options.mutants} wrong programs were made of each reference, to see how many its tests reject; "
        f"least share asked for: {options.min_test_strength or 'none'}.",
        f"- Problems of sources without solutions: {options.no_reference}.",
        "- The same text, or word 5-gram Jaccard similarity of at least "
        f"{options.dedup} to a row that stays: removed, unless titles, functions or tests differ.",
        *([f"- Stages, chosen by the caller: {', '.join(stages)}."] if stages else []),
        f"- Seed {options.seed}.",
    ]


def _step(step: StepPlan) -> str:
    """Describe a step after the build that removed rows."""
    options = step.options
    if step.step == "filter":
        conditions = "; ".join(f"`{' '.join(text.split())}`" for text in options["where"])
        return f"- Filtered: only rows for which this is true: {conditions}."
    others = " or ".join(name for name in ("train", *options["sizes"]) if name != options["part"])
    return (
        f"- Split: this is the part {options['part']}; none of its rows is the same problem as a row of {others}, or "
        f"has a word 5-gram Jaccard similarity of at least {options['similarity']} to one. Seed {options['seed']}."
    )


def _provenance(manifest: Manifest) -> list[str]:
    return [
        "## Where it comes from",
        "",
        "Licences are those the sources state; statements may have further owners.",
        "",
        *_table(["source", "licence", "files", "sha256"], _input_files(manifest)),
        "",
    ]


def _input_files(manifest: Manifest) -> list[tuple[Any, ...]]:
    rows = []
    for name, files in manifest.plan.inputs.items():
        source = source_module(name)
        title = source.TITLE if name in source_names() else f"{source.TITLE} ({name})"
        link = f"[{title}](https://huggingface.co/datasets/{source.HUB_ID})" if source.HUB_ID else title
        options = manifest.plan.configuration["source_options"].get(name, {})
        licence = options.get("licence", source.LICENCE)
        rows += [(link, licence, file.name, f"`{file.sha256}`") for file in files]
    return rows


def _columns() -> list[str]:
    return [
        "## Columns",
        "",
        *_meanings(COLUMNS),
        "",
        "Config `rejected`:",
        "",
        *_meanings(REJECTED_COLUMNS),
        "",
        "Config `evidence`, whose texts are cut after 4 KiB and which the content hash leaves out:",
        "",
        *_meanings(EVIDENCE_COLUMNS),
    ]


def _meanings(columns: Mapping[str, tuple[str, str]]) -> list[str]:
    rows = ((name, kind.replace("?", " or null"), meaning) for name, (kind, meaning) in columns.items())
    return _table(["column", "type", "meaning"], rows)


def _table(header: list[str], rows: Iterable[Iterable[Any]]) -> list[str]:
    return [
        "| " + " | ".join(header) + " |",
        "|" + "---|" * len(header),
        *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows),
    ]
