"""The export target jsonl: problems.jsonl, with input records of `curate judge` and further fields for trainers.

The field `code` of a record is the reference solution. To judge another submission with `curate judge`, replace it.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from curate.exports._export import (
    UNSUPPORTED_LIMITS_MESSAGE,
    ExportOptions,
    has_nondefault_limits,
    make_suite_record,
    make_user_message,
    write_readme,
)
from curate.problem import Problem
from curate.prompt import PromptFormat

EXCLUSION_REASONS = {"limits": UNSUPPORTED_LIMITS_MESSAGE}
_README = """# Problems as JSON Lines

`problems.jsonl` holds a record of `curate judge` per line: `id`, `kind`, `fn_name`, `tests`, `time_limit_s`,
`memory_limit_mb`, `checker`, and the reference as `code` (null if none was verified) in `language`. Further fields are
`prompt`, `statement`, `starter_code`, `source`, `url` and `licence`.

    curate judge problems.jsonl --out verdicts.jsonl
"""


def find_unsupported_reason(problem: Problem, options: ExportOptions) -> str | None:
    return "limits" if has_nondefault_limits(problem.tests) else None


def write(problems: Iterable[Problem], folder: Path, options: ExportOptions) -> None:
    with (folder / "problems.jsonl").open("w", encoding="utf-8") as file:
        for problem in problems:
            file.write(json.dumps(_make_record(problem, options.prompt), ensure_ascii=False) + "\n")
    write_readme(folder, _README, options.prompt, "Pass them to your sampler.")


def _make_record(problem: Problem, prompt: PromptFormat) -> dict[str, object]:
    return {
        "id": problem.id,
        **({"system_prompt": prompt.system} if prompt.system else {}),
        "prompt": make_user_message(problem, prompt),
        "code": problem.reference and problem.reference.source,
        "language": problem.reference.language if problem.reference else "python",
        **make_suite_record(problem.tests),
        "statement": problem.statement,
        "starter_code": problem.starter_code,
        "source": problem.source,
        "url": problem.url,
        "licence": problem.licence,
    }
