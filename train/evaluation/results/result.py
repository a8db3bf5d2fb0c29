"""The result of an evaluation and its JSON file, in schema 2: the model, the suite, the settings, and the outcomes.

The file also has statistics of the outcomes for readers without curate. It has no times unless GPU hours have a price,
so a repeated evaluation gives the same bytes.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, Self

from curate.dataset.output_folder import write_atomic
from curate.errors import CurateError
from curate.json_records import from_json, json_key, to_json
from rewards.extract import PYTHON_ONLY
from rewards.reward import NO_ANSWER, NO_CODE
from sandbox.extras import DISTRIBUTION, find_installed_version
from train.evaluation.codeforces.rating import Rating
from train.evaluation.statistics.outcomes import ProblemOutcomes, Summary, summarize, summarize_by_stratum
from train.gpu_cost import GpuCost

SCHEMA = 2
_ADVICE = "Give a file that `curate evaluate --out FILE` wrote."
_TOKENS_PER_PRICE = 1_000_000
# Key in the file -> field of Summary.
_SUMMARY = {
    "n_problems": "n_problems",
    "n_unknown": "n_unknown",
    "n_samples": "n_samples",
    "n_no_verdict": "n_no_verdict",
    "pass_at_1": "pass_at_1",
    "standard_error": "standard_error",
    "low": "low",
    "high": "high",
    "pass_at": "pass_at",
    "always": "always_solved_share",
    "cut_off": "truncated_share",
    "tokens_p50": "tokens_p50",
    "tokens_p95": "tokens_p95",
}


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices of a million tokens, in any currency. Raises ValueError if a price is below 0."""

    prompt: float
    completion: float = field(metadata=json_key("answer"))

    def __post_init__(self) -> None:
        if not (self.prompt >= 0 and self.completion >= 0):
            raise ValueError(f"prices must be at least 0, not {self.prompt:g} and {self.completion:g}")


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """The numbers of tokens of all samples, including reasoning; None if the server omitted the length of a sample."""

    prompt: int | None
    completion: int | None = field(metadata=json_key("answer"))


def sum_tokens(samples: Iterable[tuple[int, int]]) -> TokenCounts:
    """Add up pairs (tokens of the prompt, tokens of the completion); 0 means unknown.

    Every sample counts its whole prompt, as in the bills of providers.
    """
    pairs = list(samples)
    prompts, completions = [prompt for prompt, _ in pairs], [completion for _, completion in pairs]
    return TokenCounts(sum(prompts) if all(prompts) else None, sum(completions) if all(completions) else None)


def compute_cost(tokens: TokenCounts, prices: Prices) -> float | None:
    """Return the cost in the currency of the prices; None if a number of tokens with a price is unknown."""
    parts = ((tokens.prompt, prices.prompt), (tokens.completion, prices.completion))
    if any(n is None and price for n, price in parts):
        return None
    return sum((n or 0) * price for n, price in parts) / _TOKENS_PER_PRICE


def count_without_program(verdicts: Mapping[str, int]) -> int:
    """Return the number of samples, except truncated ones, without a program or final answer."""
    return verdicts.get(NO_CODE, 0) + verdicts.get(NO_ANSWER, 0)


@dataclass(frozen=True, slots=True)
class Result:
    """An evaluation of a model on a suite. The tables have JSON values.

    model_metadata  name, weights and engine of the model (result_metadata.collect_model_metadata)
    suite_metadata  name, rows and tests of the suite (result_metadata.collect_suite_metadata)
    sampling        sampling settings: k, temperature, top_p, max_tokens
    prompt          settings of the prompt; empty: the default
    tokens          tokens of all judged samples
    protocol        protocol and overrides; empty: none
    ratings         ratings of the model; empty for most suites
    prices          prices of the tokens; None: unknown
    gpu_cost        GPU cost of the call that wrote the file; None: unknown
    curate_version  version of curate that wrote the file; None: unknown
    """

    model_metadata: Mapping[str, Any]
    suite_metadata: Mapping[str, Any]
    sampling: Mapping[str, Any]
    prompt: Mapping[str, Any]
    engine: Mapping[str, Any]
    seed: int
    outcomes: tuple[ProblemOutcomes, ...]
    tokens: TokenCounts
    languages: tuple[str, ...] = PYTHON_ONLY
    protocol: Mapping[str, Any] = field(default_factory=dict)
    ratings: tuple[Rating, ...] = ()
    prices: Prices | None = None
    gpu_cost: GpuCost | None = None
    path: Path = Path()
    curate_version: str | None = None

    @property
    def model(self) -> str:
        return str(self.model_metadata["name"])

    @property
    def suite(self) -> str:
        """Return the display name of the suite, with the window, if any."""
        return format_suite_label(str(self.suite_metadata["name"]), self.window)

    @property
    def suite_option(self) -> str:
        """Return the value of --suite; empty for --data."""
        return str(self.suite_metadata["given"])

    @property
    def location(self) -> str:
        return str(self.suite_metadata["location"])

    @property
    def window(self) -> str:
        return str(self.suite_metadata["window"]["asked"])

    @property
    def k(self) -> int:
        return max((len(problem.correct) for problem in self.outcomes), default=0)

    def to_json(self) -> dict[str, Any]:
        """Return the content of the file, with null for an unknown number."""
        summary = summarize(self.outcomes)
        prices = {"cost": compute_cost(self.tokens, self.prices), "prices": to_json(self.prices)} if self.prices else {}
        return {
            "schema": SCHEMA,
            "curate": find_installed_version(DISTRIBUTION),
            "model": dict(self.model_metadata),
            "suite": dict(self.suite_metadata),
            **({"protocol": dict(self.protocol)} if self.protocol else {}),
            "sampling": dict(self.sampling),
            "prompt": dict(self.prompt),
            **({"languages": list(self.languages)} if self.languages != PYTHON_ONLY else {}),
            "engine": dict(self.engine),
            "seed": self.seed,
            "numbers": {
                **encode_summary(summary),
                "n_truncated": summary.n_truncated,
                "n_truncated_correct": summary.n_truncated_correct,
                "n_no_code": count_without_program(summary.verdicts),
                "mean_tokens": _replace_nonfinite(summary.mean_tokens),
                "tokens": to_json(self.tokens),
                **prices,
                **({"gpu_cost": self.gpu_cost.as_table()} if self.gpu_cost else {}),
                "verdicts": dict(summary.verdicts),
            },
            **({"ratings": to_json(self.ratings)} if self.ratings else {}),
            "strata": {
                name: {value: encode_summary(of_group) for value, of_group in groups.items()}
                for name, groups in summarize_by_stratum(self.outcomes).items()
            },
            "problems": [problem.to_json() for problem in self.outcomes],
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any], path: Path) -> Self:
        """Decode the content of a file.

        Raises LookupError, TypeError, ValueError or AttributeError if it is damaged.
        """
        suite, numbers = content["suite"], content["numbers"]
        prices = numbers.get("prices")
        result = cls(
            dict(content["model"]),
            dict(suite),
            dict(content["sampling"]),
            dict(content["prompt"]),
            dict(content["engine"]),
            content["seed"],
            tuple(map(ProblemOutcomes.from_json, content["problems"])),
            from_json(TokenCounts, numbers["tokens"]),
            tuple(content.get("languages", PYTHON_ONLY)),
            dict(content.get("protocol", {})),
            tuple(from_json(Rating, entry, ignore_unknown=True) for entry in content.get("ratings", ())),
            None if prices is None else from_json(Prices, prices),
            GpuCost.from_table(numbers["gpu_cost"]) if "gpu_cost" in numbers else None,
            path,
            content.get("curate"),
        )
        _ = result.model, result.suite  # raise an error for damaged metadata
        return result

    def write(self, path: Path) -> None:
        write_atomic(path, json.dumps(self.to_json(), indent=1) + "\n")


def encode_summary(summary: Summary) -> dict[str, Any]:
    """Return a summary as JSON values, with null for an unknown number."""
    numbers = {key: _replace_nonfinite(getattr(summary, name)) for key, name in _SUMMARY.items()}
    return numbers | {"pass_at": {str(j): value for j, value in summary.pass_at.items()}}


def _replace_nonfinite(value: Any) -> Any:
    return None if isinstance(value, float) and not isfinite(value) else value


def read_result(path: Path) -> Result:
    """Read a result file. Raises CurateError for other or damaged files, and OSError if the file is unreadable."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise CurateError(f"{path} is not a JSON file. {_ADVICE}") from None
    if not is_result(content):
        raise CurateError(f"{path} is not the result of an evaluation. {_ADVICE}")
    if content["schema"] != SCHEMA:
        advice = "Run the same `curate evaluate` again" if content["schema"] == 1 else "Update curate"
        raise CurateError(
            f"{path} has schema {content['schema']}, but this version of curate reads schema {SCHEMA}. {advice}."
        )
    try:
        return Result.from_json(content, path)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise CurateError(
            f"{path} is damaged: {reason}. Run the same `curate evaluate` again, which reuses its samples."
        ) from None


def is_result(content: Any) -> bool:
    """Return whether a JSON value is the content of a result file, of any schema."""
    return (
        isinstance(content, dict)
        and {"schema", "model"} <= content.keys()
        and isinstance(content.get("problems"), list)
    )


def read_results(paths: tuple[Path, ...]) -> list[Result]:
    """Read result files, and the result files in folders, sorted by name. Skips other JSON files in folders.

    Raises CurateError if a file is not a result, or a folder has none.
    """
    results = []
    for path in paths:
        if not path.is_dir():
            results.append(read_result(path))
            continue
        inside = [file for file in sorted(path.rglob("*.json")) if _is_result_file(file)]
        if not inside:
            raise CurateError(f"{path} contains no result of an evaluation. {_ADVICE}")
        results += map(read_result, inside)
    return results


def _is_result_file(path: Path) -> bool:
    try:
        return is_result(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, OSError):
        return False


def shorten_location(location: str) -> str:
    """Return the display name of a location: the last part of a path or Hub id."""
    return Path(location.partition("?")[0]).name or location


def format_suite_label(name: str, window: str) -> str:
    return f"{name} {window}" if window else name


def shorten_model_name(model: str) -> str:
    return Path(model).name or model


def list_model_names(results: Sequence[Result]) -> list[str]:
    """Return the model name of each result, shortened to the last part of its path if that is unique."""
    full = {result.model for result in results}
    counts = Counter(map(shorten_model_name, full))
    return [
        shorten_model_name(result.model) if counts[shorten_model_name(result.model)] == 1 else result.model
        for result in results
    ]


def label_results(results: Sequence[Result]) -> list[str]:
    """Return a unique name for each result: the model name, the file name, or the path."""
    for names in (list_model_names(results), [result.path.stem for result in results]):
        if len(set(names)) == len(names):
            return names
    paths = [str(result.path) for result in results]
    seen: Counter[str] = Counter()
    for number, path in enumerate(paths):
        seen[path] += 1
        if seen[path] > 1:
            paths[number] = f"{path} ({seen[path]})"
    return paths
