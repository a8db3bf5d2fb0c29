"""Judge one answer, and tell the two ways apart in which no verdict may come."""

from sandbox import Sandbox, SandboxError
from train.evaluation.exercise import Exercise
from train.evaluation.judges.judge import JudgeResult, NoVerdictError


def judge_answer(exercise: Exercise, answer: str, sandbox: Sandbox) -> JudgeResult:
    """Return what the judge of an exercise says about the text of an answer.

    Raises SandboxError if the sandbox fails, so that another attempt may succeed, and NoVerdictError if the exercise
    cannot judge this answer, for example since its checker fails.
    """
    try:
        return exercise.judge_answer(answer, sandbox)
    except (SandboxError, NoVerdictError):
        raise
    except Exception as error:  # RefereeError, most likely; no answer may end the evaluation of the others
        raise NoVerdictError(f"{exercise.id}: its tests cannot judge this answer: {error}") from error
