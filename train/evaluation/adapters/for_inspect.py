"""Evaluations in inspect_ai, whose answers are judged by our judges in our sandbox.

    @task
    def humaneval_plus() -> Task:
        return curate_task("humaneval+=HumanEvalPlus.jsonl.gz")

A task of your own takes the dataset and the scorer of the same suite. The log of inspect_ai has the arguments of the
scorer, so `inspect score` can judge the answers of a log again.
"""

from anyio import CapacityLimiter, to_thread
from inspect_ai import Task
from inspect_ai.dataset import Dataset, MemoryDataset, Sample
from inspect_ai.hooks import Hooks, RunEnd, hooks
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageSystem, ChatMessageUser, GenerateConfig
from inspect_ai.scorer import CORRECT, INCORRECT, Score, Scorer, Target, accuracy, scorer, stderr
from inspect_ai.solver import TaskState, generate

from rewards.reward import ACCEPTED
from train.evaluation.adapters.exercise_set import SuiteRequest, find_exercise, load_exercises, messages
from train.evaluation.adapters.judgement import judge_answer
from train.evaluation.adapters.lazy_sandbox import LazySandbox
from train.evaluation.exercise import Exercise
from train.evaluation.judges.judge import JudgeResult, NoVerdictError

EXERCISE_ID_KEY = (
    "curate_exercise"  # in the metadata of a sample: the id of its exercise, if the sample itself has another
)
_MESSAGES = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}

_sandbox = LazySandbox()
_threads = CapacityLimiter(64)  # apart from the threads that inspect_ai itself needs; each only waits


def curate_task(suite: str, window: str = "", protocol: str = "", form: str = "") -> Task:
    """Return a task of inspect_ai that samples and judges a suite as `curate evaluate` does, with the same settings.

    Temperature, top_p, tokens, stops and, as epochs, the number of samples are those of the protocol or, without one,
    those of `curate evaluate`. Options of `inspect eval` take their place. The arguments are those of curate_dataset.
    """
    used = SuiteRequest(suite, window, protocol, form).resolve().suite_settings
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

    suite     as behind `curate evaluate --suite`: NAME, NAME=LOCATION or NAME?option=value
    window    FROM..TO, the first and the last day of contests, both included; empty: as the protocol says, or all
    protocol  name of a protocol, see `curate evaluate --protocol`; empty: none
    form      form of the prompt, see `curate evaluate --form`; empty: as the protocol says, or ours

    Raises CurateError for names that do not exist, if the suite cannot be read, and for forms in which the model
    continues a text that is already begun.
    """
    samples = [_sample(exercise) for exercise in load_exercises(SuiteRequest(suite, window, protocol, form)).values()]
    return MemoryDataset(samples, name=suite, location=suite)


@scorer(metrics=[accuracy(), stderr()])
def curate_scorer(suite: str, window: str = "", protocol: str = "", form: str = "") -> Scorer:
    """Return a scorer that judges answers as `curate evaluate` does. The arguments are those of curate_dataset.

    A sample's exercise is the one that its metadata names as "curate_exercise", or else the one with the sample's id. A
    sandbox that fails is an error of the sample, and an answer without a verdict is not scored; neither counts as
    wrong. Raises CurateError as curate_dataset does, and if the suite has no exercise for a sample.
    """
    wanted = SuiteRequest(suite, window, protocol, form)
    load_exercises(wanted)  # what is wrong with the suite is said before any answer is sampled

    async def score(state: TaskState, target: Target) -> Score:
        id = str(state.metadata.get(EXERCISE_ID_KEY, state.sample_id))
        exercise = find_exercise(id, wanted)
        try:
            found = await to_thread.run_sync(_judge, exercise, state.output.completion, limiter=_threads)
        except NoVerdictError as error:
            return Score.unscored(reason="scoring_failed", explanation=str(error))
        value = CORRECT if found.verdict == ACCEPTED else INCORRECT
        return Score(
            value=value, explanation=found.verdict, metadata={"verdict": found.verdict, "parts": dict(found.parts)}
        )

    return score


@hooks(name="curate_sandbox", description="closes the sandbox of curate_scorer")
class _Closing(Hooks):
    async def on_run_end(self, data: RunEnd) -> None:
        await to_thread.run_sync(_sandbox.close)


def _judge(exercise: Exercise, answer: str) -> JudgeResult:
    return judge_answer(exercise, answer, _sandbox.get())


def _sample(exercise: Exercise) -> Sample:
    asked: list[ChatMessage] = [_MESSAGES[one["role"]](content=one["content"]) for one in messages(exercise)]
    facts = exercise.metadata
    day = facts.date and facts.date.isoformat()
    known = {"difficulty": facts.difficulty, "platform": facts.platform, "date": day}
    return Sample(
        input=asked, id=exercise.id, metadata={name: value for name, value in known.items() if value is not None}
    )
