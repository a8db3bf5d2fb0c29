"""A band of solve rates, to select problems that teach a model something: it solves them neither always nor never."""

from dataclasses import dataclass

from curate.errors import CurateError


@dataclass(frozen=True, slots=True)
class SolveRateBand:
    """The minimum and the maximum share of samples that solve a problem, both included.

    INTELLECT-2 keeps problems of which 1 to 4 of 8 samples are right: 0.125 to 0.5.
    """

    lower: float = 0.0
    upper: float = 1.0

    @classmethod
    def parse(cls, text: str) -> "SolveRateBand":
        """Parse LEAST:MOST, in which either number may be left out. Raises CurateError for anything else."""
        least, colon, most = text.partition(":")
        try:
            band = cls(float(least or 0), float(most or 1))
        except ValueError:
            colon = ""
        if not colon or text == ":" or not 0 <= band.lower <= band.upper <= 1:
            raise CurateError(
                f"--solve-rate {text}: give LEAST:MOST, two shares from 0 to 1 such as 0.125:0.5; "
                "either may be left out, as in 0.125:"
            )
        return band

    def exclusion_reason(self, n: int, n_correct: int) -> str | None:
        """Return a fixed word that says why n_correct of n samples is not in the band; None if it is."""
        if n == 0:
            return "not_sampled"
        # The quotient is the float nearest to the ratio. A bound that is written as a decimal is such a float, too.
        rate = n_correct / n
        if rate < self.lower:
            return "too_hard"
        return "too_easy" if rate > self.upper else None

    def __str__(self) -> str:
        return f"{self.lower:g}:{self.upper:g}"
