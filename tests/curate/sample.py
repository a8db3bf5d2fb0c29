"""A small raw dataset in all three encodings, with every kind of outcome, and the expected results."""

from pathlib import Path

from source_rows import SUM, SUM_TESTS, livecodebench_row, synthetic1_row, taco_row, words, write_jsonl, write_parquet

WRAPPED_TESTS = [([n], [2 * n]) for n in range(6)]
DOUBLE = "def double(n):\n    return 2 * n"

OUTCOMES = {
    "taco/0": "kept",
    "taco/1": "kept",
    "taco/2": "kept",
    "taco/3": "unparsable",
    "taco/4": "no_reference",
    "taco/5": "wrong_language",
    "taco/6": "few_tests",
    "taco/7": "no_statement",
    "taco/8": "image",
    "taco/9": "interactive",
    "taco/10": "reference_fails",
    "synthetic1/a": "duplicate_near",
    "synthetic1/b": "not_code",
    "synthetic1/c": "kept",
    "livecodebench/1": "kept",
    "livecodebench/2": "duplicate_exact",
    "livecodebench/3": "unparsable",
}


def write(folder: Path) -> list[tuple[str, str]]:
    """Write the sample and return its (name, location) pairs."""
    write_parquet(
        folder / "taco" / "train.parquet",
        [
            taco_row(words(0)),
            taco_row(words(1), solutions=["print(0)", SUM + "\n"]),
            taco_row(words(2), WRAPPED_TESTS, [DOUBLE], fn_name="double"),
            taco_row(words(3), input_output="{"),
            taco_row(words(4), solutions=[]),
            taco_row(words(5), solutions=["print 'a'"]),
            taco_row(words(6), SUM_TESTS[:3] * 2),
            taco_row("?"),
            taco_row(words(8) + " <image>"),
            taco_row(words(9) + "\n\nThis is an interactive problem."),
            taco_row(words(10), solutions=["print(0)", "1 / 0"]),
        ],
    )
    write_parquet(
        folder / "synthetic1" / "train.parquet",
        [
            synthetic1_row("a", words(1) + " now"),
            synthetic1_row("a", words(1) + " now"),
            synthetic1_row("b", words(11), task_type="verifiable_math"),
            synthetic1_row("c", words(12)),
        ],
    )
    write_jsonl(
        folder / "livecodebench" / "test.jsonl",
        [
            livecodebench_row("1", words(13)),
            livecodebench_row("2", words(0)),
            livecodebench_row("3", words(14), public_test_cases="["),
        ],
    )
    return [(name, str(folder / name)) for name in ("taco", "synthetic1", "livecodebench")]
