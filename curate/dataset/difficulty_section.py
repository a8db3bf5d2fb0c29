"""The part of the dataset card on difficulty: the config that `load_dataset` needs, and a line for each model."""

import re
from pathlib import Path
from statistics import fmean
from typing import Any

from curate.manifest import SelectedBand

CONFIG = {"config_name": "difficulty", "data_files": "difficulty/train-*.parquet"}
_CONFIG = [f"- config_name: {CONFIG['config_name']}", f"  data_files: {CONFIG['data_files']}"]
_DEFAULT = ["configs:", "- config_name: default", "  data_files: data/train-*.parquet", "  default: true"]
_SECTION = re.compile(r"\n## Difficulty\n.*?(?=\n## |\Z)", re.DOTALL)


def update_card(folder: Path, rows: list[dict[str, Any]], chosen: SelectedBand | None) -> None:
    """Put the config and the section into the README.md of the folder, replacing earlier ones.

    rows: the rows of the table of solve rates
    chosen: the band that the dataset was reduced to; None if it was not reduced
    """
    readme = folder / "README.md"
    before = readme.read_text(encoding="utf-8") if readme.exists() else ""
    after = _SECTION.sub("", add_config(before)).rstrip("\n") + "\n\n" + "\n".join(section(rows)) + "\n"
    if chosen:
        after += f"\nOnly problems with a solve rate of {chosen.band} (both included) were kept: "
        after += f"{', '.join(chosen.models)}. The table above is of all that were sampled.\n"
    if after != before:
        aside = folder / "README.md.new"
        aside.write_text(after, encoding="utf-8")
        aside.replace(readme)


def add_config(text: str) -> str:
    """Return the card with the config `difficulty` in its front matter, which is added if it is missing."""
    lines = text.splitlines()
    if _CONFIG[0] in lines:
        return text
    if lines[:1] != ["---"] or "---" not in lines[1:]:
        return "\n".join(["---", *_DEFAULT, *_CONFIG, "---", "", *lines])
    end = lines.index("---", 1)
    if "configs:" not in lines[:end]:
        return "\n".join([*lines[:end], *_DEFAULT, *_CONFIG, *lines[end:]])
    after = lines.index("configs:") + 1
    while lines[after].startswith(("-", " ")) and lines[after] != "---":
        after += 1
    return "\n".join([*lines[:after], *_CONFIG, *lines[after:]])


def section(rows: list[dict[str, Any]]) -> list[str]:
    """Return the section, which says how often each model solves the problems, on average over those with a verdict."""
    lines = [
        "## Difficulty",
        "",
        "Answers of models, executed against all tests; the config `difficulty` has them problem by problem.",
        "",
        "| model | problems | samples of each | pass@1 | pass@k | cut off | temperature | top_p | most tokens |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for model in sorted({row["model"] for row in rows}):
        known = [row for row in rows if row["model"] == model and row["n"]]
        if not known:
            continue
        n, k, first = sum(row["n"] for row in known), known[0]["k"], known[0]
        estimated = [row["pass_at_k"] for row in known if row["pass_at_k"] is not None]
        cells = [
            model,
            len(known),
            f"{n / len(known):g}",
            f"{fmean(row['pass_at_1'] for row in known):.3f}",
            f"{fmean(estimated):.3f} (k={k})" if estimated else "-",
            f"{sum(row['n_truncated'] for row in known) / n:.1%}",
            f"{first['temperature']:g}",
            f"{first['top_p']:g}",
            first["max_tokens"],
        ]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return lines
