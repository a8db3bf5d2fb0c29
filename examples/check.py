"""A check of the metadata in examples/problems, independent of curate/:  .venv/bin/python examples/check.py

It runs every solution without isolation, in about a minute, and derives the kept rows from the verdicts.
"""

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from typing import Any

import encode
from encode import Sample, Solution

# Deliberate variants: nearly the same words, but different answers.
VARIANTS = {"taco/15-stamp-album-i", "taco/16-stamp-album-ii"}


def time_limit_seconds(sample: Sample) -> float:
    return min(max(5 * sample.settings.get("seconds", 1.0), 6), 12)


def is_equal(printed: Any, expected: Any) -> bool:
    if isinstance(printed, str) and isinstance(expected, str):
        return [line.split() for line in printed.split("\n")] == [line.split() for line in expected.split("\n")]
    return printed == expected


def run_tests(solution: Solution, sample: Sample, hash_seed: int = 0) -> str:
    for given, expected in sample.tests:
        try:
            printed = encode.run(solution, sample, given, seconds=time_limit_seconds(sample), hash_seed=hash_seed)
        except subprocess.TimeoutExpired:
            return "slow"
        except subprocess.CalledProcessError as error:
            return "foreign" if b"SyntaxError" in error.stderr.encode() else "crash"
        if not is_equal(printed, expected):
            return "wrong"
    return "accepted"


def judge(solution: Solution, sample: Sample) -> str:
    """Return the right verdict of a solution; `flaky` if it depends on the hash seed."""
    if solution.language != "python":
        return "foreign"
    first = run_tests(solution, sample)
    if first == "accepted" and any(run_tests(solution, sample, hash_seed=seed) != first for seed in (1, 2, 3)):
        return "flaky"
    return first


def judge_all(sample: Sample) -> dict[Solution, str]:
    return {solution: judge(solution, sample) for solution in sample.solutions}


def decide(sample: Sample, text: str, verdicts: dict[Solution, str]) -> str:
    """Return `keep`, or the reason of the first stage that rejects the sample, without deduplication."""
    gold = [verdicts[solution] for solution in sample.public_solutions]
    has_references = sample.source != "livecodebench"
    distinct = {json.dumps(test) for test in sample.tests}
    if "answer" in sample.settings:
        return "not_code"
    if sample.settings.get("quirk") in ("broken JSON", "unequal lengths", "error as expected value"):
        return "unparsable"
    if has_references and not gold:
        return "no_reference"
    if has_references and all(each == "foreign" for each in gold):
        return "wrong_language"
    if len(distinct) < 5:
        return "few_tests"
    if "<image>" in text:
        return "image"
    if "interactive problem" in text:
        return "interactive"
    if has_references and not {"accepted", "flaky"} & set(gold):
        return "reference_fails"
    if has_references and "accepted" not in gold:
        return "flaky_reference"
    return "keep"


def make_shingles(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"[a-z0-9_]+", text.lower())
    return set(zip(*(words[start:] for start in range(5)), strict=False))


def compute_jaccard(a: set[Any], b: set[Any]) -> float:
    return len(a & b) / len(a | b)


def rank(sample: Sample) -> tuple[bool, int, int, str]:
    """Return the sort key of duplicates; the first is kept: verified, then most tests, then source, then id."""
    sources = list(encode.RENDERERS)
    distinct = {json.dumps(test) for test in sample.tests}
    return sample.source == "livecodebench", -len(distinct), sources.index(sample.source), sample.row_id


def find_mistakes() -> list[str]:
    """Return a message for each wrong entry in the metadata of the samples."""
    samples = encode.read_samples()
    messages = []
    with ThreadPoolExecutor(2) as pool:
        verdicts = dict(zip(samples, pool.map(judge_all, samples.values()), strict=True))
    for key, sample in samples.items():
        for solution in sample.solutions:
            if (seen := verdicts[key][solution]) != solution.verdict:
                messages.append(f"{key}: a solution marked {solution.verdict} is {seen}")

    texts = {key: encode.render_statement(sample, samples) for key, sample in samples.items()}
    fates = {key: decide(sample, texts[key], verdicts[key]) for key, sample in samples.items()}
    words = {key: make_shingles(text) for key, text in texts.items()}
    for a, b in combinations(samples, 2):
        similarity = compute_jaccard(words[a], words[b])
        if {a, b} == VARIANTS or similarity < 0.5:
            continue
        print(f"{similarity:.2f}  {a}  {b}")
        if similarity < 0.7:
            messages.append(f"{a} and {b} are neither duplicates nor clearly different: {similarity:.2f}")
        elif fates[a] == fates[b] == "keep":
            removed = max(samples[a], samples[b], key=rank).key
            fates[removed] = "duplicate_exact" if texts[a] == texts[b] else "duplicate_near"

    if compute_jaccard(*(words[key] for key in VARIANTS)) < 0.7:
        messages.append(f"the variants {VARIANTS} should look like duplicates")
    for key, sample in samples.items():
        if fates[key] != sample.settings["expect"]:
            messages.append(f"{key}: expect is {sample.settings['expect']}, but should be {fates[key]}")
        length = len(sample.statement.split()) + sum(len(text.split()) for text in sample.sections.values())
        print(f"{sample.row_id:28} {fates[key]:16} {len(sample.tests):2} tests, {length:3} words")
    return messages


def main() -> int:
    messages = find_mistakes()
    for message in messages:
        print(message, file=sys.stderr)
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())
