"""A dataset with a custom stage, which rejects problems with long statements.

    python examples/own_stage.py --max-words 200 --out short        (examples/raw/taco is the source)

Its options are part of the dataset's plan. Its rejections are in the table `rejected`, the manifest, the report and the
card, like those of any other stage.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from curate import BuildOptions, BuildRow, OpenSandbox, ProblemStage, build, compute_fingerprint, default_stages

RAW = Path(__file__).parent / "raw" / "taco"


class ShortStatements(ProblemStage[int]):
    """A stage that rejects statements of more than `max_words` words. The record of a problem is their number."""

    name = "short statements"
    record_type = int

    def __init__(self, *, max_words: int) -> None:
        self._max_words = max_words

    @property
    def options(self) -> Mapping[str, Any]:
        return {"max_words": self._max_words}

    def key(self, row: BuildRow) -> str:
        """Return a fingerprint of the statement, the only input of the number of words."""
        return compute_fingerprint(row.problem.statement)

    def examine(self, row: BuildRow, sandbox: OpenSandbox) -> int:
        """Count words. Stages that execute programs set `seed`, and call `sandbox(self.seed)` to get a Sandbox."""
        return len(row.problem.statement.split())

    def apply_record(self, row: BuildRow, record: int) -> BuildRow:
        """Reject the problem if its statement has too many words."""
        if record <= self._max_words:
            return row
        return row.reject(self.name, "long_statement", f"{record} words")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-words", type=int, default=200)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    options = BuildOptions(mutants=0, cross_checks=0)
    stages = [*default_stages(options), ShortStatements(max_words=arguments.max_words)]
    manifest = build([("taco", str(RAW))], arguments.out, options, stages=stages)
    rejected = sum(count.count_rejected(ShortStatements.name) for count in manifest.counts.values())
    print(f"{manifest.n_kept} problems in {arguments.out}; {rejected} statements were too long")


if __name__ == "__main__":
    main()
