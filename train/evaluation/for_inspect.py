"""Evaluations in inspect_ai, with completions judged by our judges in our sandbox.

    @task
    def humaneval_plus() -> Task:
        return curate_task("humaneval+=HumanEvalPlus.jsonl.gz")

A custom task needs the dataset and the scorer of the same suite. inspect_ai logs the scorer's arguments, so `inspect
score` can judge the completions in a log again.

All completions of a run share a sandbox: local or, if CURATE_URL is set, a service, with the packages of
CURATE_PACKAGES.
"""

import threading
from collections.abc import Mapping
from functools import lru_cache

from anyio import CapacityLimiter, to_thread
from inspect_ai import Task
from inspect_ai.dataset import Dataset, MemoryDataset, Sample
from inspect_ai.hooks import Hooks, RunEnd, hooks
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageSystem, ChatMessageUser, GenerateConfig
from inspect_ai.scorer import CORRECT, INCORRECT, Score, Scorer, Target, accuracy, scorer, stderr
from inspect_ai.solver import TaskState, generate

from curate.errors import CurateError
from curate.prompt import PromptFormat
from rewards.process_singletons import read_options_from_environment
from rewards.reward import ACCEPTED
from sandbox import Sandbox, SandboxError
from train.evaluation.exercises import parse_suite, read_exercises
from train.evaluation.judges.judge import JudgeResult, NoVerdictError
from train.evaluation.protocols.forms import FORMS
from train.evaluation.protocols.settings import OWN_FORM, PROTOCOLS, SuiteSettings, resolve_settings
from train.evaluation.suites.suite import Exercise

EXERCISE_ID_KEY = "curate_exercise"  # metadata key of the exercise's id, for samples with another id
_MAX_SUITES = 4  # maximum number of suites in memory
_MESSAGES = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}
_threads = CapacityLimiter(64)  # threads that wait for the sandbox, separate from inspect_ai's


def curate_task(suite: str, window: str = "", protocol: str = "", form: str = "") -> Task:
    """Return a task that samples and judges a suite with the settings of `curate evaluate`.

    The settings include the sampling options and the number of samples (epochs). Options of `inspect eval` override
    them. Takes the arguments of curate_dataset.
    """
    used = resolve_suite_settings(suite, window, protocol, form)
    return Task(
        dataset=curate_dataset(suite, window, protocol, form),
        solver=generate(),
        scorer=curate_scorer(suite, window, protocol, form),
        config=GenerateConfig(
            temperature=used.temperature,
            top_p=used.top_p,
            max_tokens=used.max_tokens,
            stop_seqs=list(used.stop) or None,
        ),
        epochs=used.k,
    )


def curate_dataset(suite: str, window: str = "", protocol: str = "", form: str = "") -> Dataset:
    """Return the exercises of a suite as samples of inspect_ai.

    suite     as for `curate evaluate --suite`: NAME, NAME=LOCATION or NAME?option=value
    window    FROM..TO, inclusive range of contest dates; empty: the protocol's window, or all dates
    protocol  name of a protocol, see `curate evaluate --protocol`; empty: none
    form      form of the prompt, see `curate evaluate --form`; empty: the protocol's, or ours

    Raises CurateError for unknown names, an unreadable suite, and forms in which the model continues a text.
    """
    samples = [_make_sample(exercise) for exercise in load_exercises(suite, window, protocol, form).values()]
    return MemoryDataset(samples, name=suite, location=suite)


@scorer(metrics=[accuracy(), stderr()])
def curate_scorer(suite: str, window: str = "", protocol: str = "", form: str = "") -> Scorer:
    """Return a scorer that judges completions as `curate evaluate` does. Takes the arguments of curate_dataset.

    The metadata "curate_exercise" or, without it, the sample's id identifies the exercise. If the sandbox fails, the
    sample has an error; a sample without a verdict is not scored. Neither counts as wrong. Raises CurateError as
    curate_dataset does, and if the suite has no exercise for a sample.
    """
    load_exercises(suite, window, protocol, form)  # to raise errors before sampling

    async def score(state: TaskState, target: Target) -> Score:
        id = str(state.metadata.get(EXERCISE_ID_KEY, state.sample_id))
        exercises = load_exercises(suite, window, protocol, form)
        if id not in exercises:
            raise CurateError(
                f"{suite} has no exercise {id!r}; its {len(exercises)} exercises have ids such as "
                f"{next(iter(exercises))!r}. Make samples from this suite, or set the metadata {EXERCISE_ID_KEY}."
            )
        try:
            found = await to_thread.run_sync(_judge, exercises[id], state.output.completion, limiter=_threads)
        except NoVerdictError as error:
            return Score.unscored(reason="scoring_failed", explanation=str(error))
        value = CORRECT if found.verdict == ACCEPTED else INCORRECT
        return Score(
            value=value, explanation=found.verdict, metadata={"verdict": found.verdict, "parts": dict(found.parts)}
        )

    return score


def resolve_suite_settings(suite: str, window: str, protocol: str, form: str) -> SuiteSettings:
    """Return the settings of a suite. Raises CurateError for unknown names and conflicting settings."""
    for kind, name, names in (("protocol", protocol, PROTOCOLS), ("form", form, [*FORMS, OWN_FORM])):
        if name and name not in names:
            raise CurateError(f"there is no {kind} {name!r}; there are {', '.join(names)}.")
    overrides = {"window": window or None, "form": form or None}
    return resolve_settings(protocol or None, parse_suite(suite)[0], overrides, PromptFormat()).suite_settings


@lru_cache(_MAX_SUITES)
def load_exercises(suite: str, window: str, protocol: str, form: str) -> Mapping[str, Exercise]:
    """Read the exercises of a suite, by id. Raises CurateError for an unknown or unreadable suite.

    Also raises CurateError if the model must continue plain text or its own message. inspect_ai cannot request this: it
    sends chats, to which most services reply.
    """
    name, location = parse_suite(suite)
    settings = resolve_suite_settings(suite, window, protocol, form)
    found = read_exercises(location, settings.window, suite=name, settings=settings)
    for exercise in found:
        if isinstance(exercise.prompt, str) or exercise.prompt[-1]["role"] != "user":
            raise CurateError(
                f"{suite}: in this form the model continues a text, which inspect_ai cannot request. Use `curate "
                "evaluate`, or another form, such as evalplus-thinking."
            )
    return {exercise.id: exercise for exercise in found}


def _make_sample(exercise: Exercise) -> Sample:
    assert not isinstance(exercise.prompt, str)  # ensured by load_exercises
    messages: list[ChatMessage] = [_MESSAGES[one["role"]](content=one["content"]) for one in exercise.prompt]
    metadata = exercise.metadata
    day = metadata.date and metadata.date.isoformat()
    known = {"difficulty": metadata.difficulty, "platform": metadata.platform, "date": day}
    return Sample(
        input=messages, id=exercise.id, metadata={name: value for name, value in known.items() if value is not None}
    )


def _judge(exercise: Exercise, completion: str) -> JudgeResult:
    """Judge a completion.

    Raises SandboxError if the sandbox fails, and NoVerdictError if the exercise cannot judge this completion, for
    example because its checker fails. Only the former may succeed on a retry.
    """
    try:
        return exercise.judge_completion(completion, _sandbox.get())
    except (SandboxError, NoVerdictError):
        raise
    except Exception as error:  # usually RefereeError; continue with the other completions
        raise NoVerdictError(f"{exercise.id}: its tests cannot judge this completion: {error}") from error


class LazySandbox:
    """The sandbox of a run, opened on first use. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sandbox: Sandbox | None = None

    def get(self) -> Sandbox:
        """Return the sandbox, and open it on the first call. Raises SandboxError if that fails."""
        with self._lock:
            if self._sandbox is None:
                self._sandbox = read_options_from_environment().open()
            return self._sandbox

    def close(self) -> None:
        with self._lock:
            sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            sandbox.close()


_sandbox = LazySandbox()


@hooks(name="curate_sandbox", description="closes the sandbox of curate_scorer")
class _SandboxCloser(Hooks):
    async def on_run_end(self, data: RunEnd) -> None:
        await to_thread.run_sync(_sandbox.close)
