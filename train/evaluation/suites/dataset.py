"""Trusted rows of a dataset that curate built, with their tests and expected answers."""

from collections import Counter
from collections.abc import Iterator

from curate.dataset.dataset import Dataset
from curate.errors import CurateError
from curate.problem import TEST_COLUMNS, decode_tests
from curate.trust import TrustPolicy
from train.evaluation.judges.math_judge import MathJudge
from train.evaluation.protocols.forms import Statement
from train.evaluation.suites.suite import Exercise, SuiteOptions, parse_metadata

NAME = "dataset"
_COLUMNS = ("id", "statement", "starter_code", *TEST_COLUMNS, "expected_answer", "difficulty", "platform", "date")
_TRUST_COLUMNS = ("verified", "multi_answer_suspect")


def read(source: Dataset, options: SuiteOptions, trust: TrustPolicy, exclusions: Counter[str]) -> Iterator[Exercise]:
    """Yield the trusted problems within the date range; count the untrusted ones in `exclusions`, by reason.

    Raises CurateError if there is a date range and a problem has no date.
    """
    n_undated = 0
    for row in source.iter_rows("data", (*_COLUMNS, *_TRUST_COLUMNS)):
        n_undated += not row["date"]
        if options.date_range is not None and not options.date_range[0] <= row["date"] <= options.date_range[1]:
            continue
        suite = decode_tests(row)
        exclusion = trust.find_exclusion_reason(
            verified=row["verified"], suspect=row["multi_answer_suspect"], checker=suite.checker
        )
        if exclusion is not None:
            exclusions[exclusion] += 1
            continue
        statement = Statement(row["statement"], row["starter_code"], suite.entry_point)
        chat = options.prompt.build_row_chat(row, suite)
        expected = row["expected_answer"]
        judge = MathJudge(expected) if expected else options.make_suite_judge(suite)
        metadata = parse_metadata(row["difficulty"], row["platform"], row["date"])
        yield options.make_exercise(row["id"], statement, chat, judge, metadata)
    if options.date_range is not None and n_undated:
        raise CurateError(
            f"{n_undated} problems of the dataset have no date. Type --window '', or omit `window` in [evaluation]."
        )
