"""The exercises of a suite by their ids, read once in each process."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from curate.errors import CurateError
from curate.prompt import PromptFormat
from train.evaluation.exercise import Exercise
from train.evaluation.exercises import read_exercises
from train.evaluation.protocols.registry import FORMS, OWN_FORM, PROTOCOLS
from train.evaluation.protocols.settings import EvaluationSettings, ProtocolOverrides, resolve_settings
from train.evaluation.suites.registry import parse_suite

_MAX_SUITES = 4  # that stay in memory, with all their tests


@dataclass(frozen=True, slots=True)
class SuiteRequest:
    """What a user asks of an adapter; empty: what `curate evaluate` does without the option of this name.

    suite     as behind `--suite`: NAME, NAME=LOCATION or NAME?option=value
    window    FROM..TO, the first and the last day of contests, both included
    protocol  whose settings are used
    form      form of the prompt
    """

    suite: str
    window: str = ""
    protocol: str = ""
    form: str = ""

    def resolve(self) -> EvaluationSettings:
        """Return how the suite is measured. Raises CurateError for unknown names and for what makes no sense."""
        for kind, name, names in (("protocol", self.protocol, PROTOCOLS), ("form", self.form, [*FORMS, OWN_FORM])):
            if name and name not in names:
                raise CurateError(f"there is no {kind} {name!r}; there are {', '.join(names)}.")
        overrides = ProtocolOverrides(window=self.window or None, form=self.form or None)
        return resolve_settings(self.protocol or None, parse_suite(self.suite)[0], overrides, PromptFormat())


@lru_cache(_MAX_SUITES)
def load_exercises(request: SuiteRequest) -> Mapping[str, Exercise]:
    """Return the exercises of a suite by their ids. Raises CurateError if there is no such suite, or it is unreadable.

    The harness asks with messages. So exercises in which the model continues plain text, or its own message, raise
    CurateError, too: most services would answer such a chat instead of continuing it.
    """
    name, location = parse_suite(request.suite)
    settings = request.resolve()
    found = read_exercises(location, settings.suite_settings.window, suite=name, style=settings.style)
    for exercise in found:
        if isinstance(exercise.prompt, str) or exercise.prompt[-1]["role"] != "user":
            raise CurateError(
                f"{request.suite}: in this form the model continues a text that is already begun, which this harness "
                "cannot ask for. Use `curate evaluate`, or another form, such as evalplus-thinking."
            )
    return {exercise.id: exercise for exercise in found}


def find_exercise(id: str, request: SuiteRequest) -> Exercise:
    """Return one exercise of a suite. Raises CurateError if the suite has none of this name, and as exercise_set."""
    found = load_exercises(request)
    if id not in found:
        first = next(iter(found))
        raise CurateError(
            f"{request.suite} has no exercise {id!r}; its {len(found)} exercises have ids such as {first!r}. Make the "
            "samples from the same suite, or name each one's exercise."
        )
    return found[id]


def messages(exercise: Exercise) -> list[dict[str, str]]:
    """Return what the model is asked, as messages of which the user's is the last."""
    assert not isinstance(exercise.prompt, str)  # exercise_set has seen to it
    return exercise.prompt
