"""The policy for the rows that commands train on, measure and export.

By default, it includes rows with a verified reference (`verified`). It excludes rows that probably have several correct
outputs (`multi_answer_suspect`), unless the checker can accept several. It rejects a dataset that differs from its
manifest (curate/dataset/integrity.py).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from sandbox.suite import INTERACTIVE, PROGRAM

UNVERIFIED, SUSPECTS = "unverified", "suspects"  # reasons to exclude a row
ALTERED = "altered"  # reason to reject a dataset
INCLUDE_CHOICES = (UNVERIFIED, SUSPECTS, ALTERED)  # values of --include
MEANINGS = {
    UNVERIFIED: "no reference has passed the tests; --include unverified adds these rows",
    SUSPECTS: "the tests may have several right answers and accept only one; --include suspects adds these rows",
}
# Checkers that can accept several outputs.
_ACCEPT_SEVERAL_ANSWERS = (PROGRAM, INTERACTIVE, "any_of", "unordered_lines")


@dataclass(frozen=True, slots=True)
class TrustPolicy:
    """Rows to include in addition to the trusted ones.

    include_unverified  include rows without a verified reference, whose tests may be wrong
    include_suspects    include rows whose tests probably have several correct outputs but accept only one
    include_altered     include datasets that differ from their manifests
    """

    include_unverified: bool = False
    include_suspects: bool = False
    include_altered: bool = False

    @classmethod
    def from_choices(cls, choices: Iterable[str]) -> "TrustPolicy":
        """Return the policy for values of --include. Raises ValueError for values not in INCLUDE_CHOICES."""
        choices = tuple(choices)
        for choice in choices:
            if choice not in INCLUDE_CHOICES:
                raise ValueError(f"only {', '.join(INCLUDE_CHOICES)} can be included, not {choice!r}")
        return cls(UNVERIFIED in choices, SUSPECTS in choices, ALTERED in choices)

    def find_exclusion_reason(self, *, verified: bool, suspect: bool, checker: str) -> str | None:
        """Return the reason to exclude a row, a key of MEANINGS; None to include the row.

        verified, suspect  the row's `verified` and `multi_answer_suspect`
        checker            the checker of its tests
        """
        if not verified and not self.include_unverified:
            return UNVERIFIED
        if suspect and not self.include_suspects and checker not in _ACCEPT_SEVERAL_ANSWERS:
            return SUSPECTS
        return None


ONLY_TRUSTED = TrustPolicy()


def format_exclusions(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield a line for each reason: the number of excluded rows, the reason, and the option that includes them.

    counts: numbers of rows, by the keys of MEANINGS
    """
    for reason in MEANINGS:
        if counts.get(reason):
            yield f"left out: {reason} {counts[reason]} ({MEANINGS[reason]})"


def format_exclusion_message(location: object, counts: Mapping[str, int]) -> str:
    """Return one message about the excluded rows of a dataset. counts: numbers of rows, by the keys of MEANINGS"""
    return f"{location}: {'; '.join(format_exclusions(counts))}"
