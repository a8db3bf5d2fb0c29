"""The suites on which a run is evaluated, and their names."""

from collections import Counter
from dataclasses import dataclass

from curate.trust import TrustPolicy
from train.config import Config
from train.errors import ConfigError
from train.evaluation.exercise import Exercise
from train.evaluation.exercises import read_exercises
from train.evaluation.results.reader import suite_name
from train.evaluation.suites import dataset
from train.evaluation.suites.registry import has_dates, parse_suite


@dataclass(frozen=True, slots=True)
class RunSuite:
    """A suite of a run.

    name       in metrics, folders and evaluation.keep_best: that of the suite or, for a dataset, of its folder
    suite      as `curate evaluate --suite` names it; "" if only one suite can read the rows
    location   where the rows are
    window     the first and the last day of contests; "" for all
    exercises  its problems
    """

    name: str
    suite: str
    location: str
    window: str
    exercises: tuple[Exercise, ...]


def read_suites(config: Config) -> tuple[RunSuite, ...]:
    """Read the problems of all suites of a configuration.

    Raises CurateError if a suite cannot be read, and ConfigError if two have the same name, or if the one that decides
    which weights are best is not among them.
    """
    settings = config.evaluation
    places = [("", settings.dataset)] * bool(settings.dataset) + [parse_suite(text) for text in settings.suites]
    names = [metric_suite_name(suite, location) for suite, location in places]
    for name, n in Counter(names).items():
        if n > 1:
            raise ConfigError(f"evaluation.suites: {n} suites have the name {name}. Leave all but one of them out.")
    if settings.keep_best and settings.keep_best not in names:
        raise ConfigError(
            f"evaluation.keep_best: {settings.keep_best!r} is not evaluated; "
            + (f"there are {', '.join(names)}." if names else "name it in evaluation.suites.")
        )
    alone = len(places) == 1
    return tuple(
        _read(config, name, suite, location, settings.window if alone or has_dates(suite) else "")
        for name, (suite, location) in zip(names, places, strict=True)
    )


def _read(config: Config, name: str, suite: str, location: str, window: str) -> RunSuite:
    settings = config.evaluation
    problems = read_exercises(
        location,
        window,
        settings.problems,
        suite=suite,
        trust=TrustPolicy.from_choices(settings.include),
        prompt=config.prompt,
        languages=config.reward.languages,
    )
    return RunSuite(name, suite, location, window, problems)


def metric_suite_name(suite: str, location: str) -> str:
    """Return the name of a suite in metrics and folders: that of a dataset is the name of its folder."""
    return suite_name(location) if suite in ("", dataset.NAME) else suite
