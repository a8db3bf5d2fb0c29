"""Submit probes to a target, and classify the results."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from curate.probe.attempts import Attempt, AttemptResult, Finding, make_submissions
from curate.probe.forms import UnusableTarget
from curate.probe.target import Score, TargetDescription, TargetJudge
from sandbox.probes.probe import Convention, Group, ProbeProblem, fenced

_HOSTILE = (Group.FORGE, Group.READ, Group.DODGE, Group.HOST)  # may leave state in the target's process
_MAX_CHUNK = 6
_SLOW_SECONDS = 3.0
_NO_PROGRAM = "I cannot solve this problem."
_FINDINGS_BY_FAULT = {"hung": Finding.HUNG, "": Finding.UNKNOWN, "unanswered": Finding.UNKNOWN}


@dataclass(frozen=True, slots=True)
class Scale:
    """The rewards of the simplest right and wrong completions for problems of one convention.

    form                        index of the form of the tests
    problem                     the problem of both completions
    right, wrong                the completions
    right_reward, wrong_reward  their rewards
    """

    form: int
    wrong_reward: float
    right_reward: float
    problem: ProbeProblem
    right: str
    wrong: str

    def is_rewarded(self, score: Score, *, fully: bool = False) -> bool:
        """Return whether a score is above the middle of both rewards. fully: it must reach the right one"""
        if score.value is None:
            return False
        if fully:
            return score.value >= self.right_reward - 1e-6 * (self.right_reward - self.wrong_reward)
        return score.value > (self.right_reward + self.wrong_reward) / 2


@dataclass(frozen=True, slots=True)
class Calibration:
    """The scales of the conventions that the target supports, and the reasons against the other conventions."""

    scales: dict[Convention, Scale]
    unsupported: dict[Convention, str]


def calibrate(judge: TargetJudge, target: TargetDescription, problems: Sequence[ProbeProblem]) -> Calibration:
    """Submit the simplest right and wrong completion of each convention. Raises UnusableTarget if no scale can be
    found."""
    scales: dict[Convention, Scale] = {}
    unsupported: dict[Convention, str] = {}
    form = None
    for convention in Convention:
        problem = next((problem for problem in problems if problem.convention is convention), None)
        if problem is None:
            continue
        if convention not in target.conventions:
            unsupported[convention] = "the target has no such tests"
            continue
        forms = range(len(target.forms)) if form is None else (form,)
        tried = [_measure_scale(judge, problem, number) for number in forms]
        best = max(tried, key=lambda scale: -1.0 if isinstance(scale, str) else scale.right_reward - scale.wrong_reward)
        if isinstance(best, str):
            unsupported[convention] = best
        elif best.right_reward <= best.wrong_reward:
            unsupported[convention] = (
                f"the plainest right answer gets {best.right_reward:g}, and a wrong one {best.wrong_reward:g}"
            )
        else:
            scales[convention], form = best, best.form
    if not scales:
        reasons = "; ".join(
            f"{', '.join(name for name, given in unsupported.items() if given == reason)}: {reason}"
            for reason in dict.fromkeys(unsupported.values())
        )
        has_network = target.protections.get("network", "none").startswith("none")
        raise UnusableTarget(
            f"it tells no right answer from a wrong one, so nothing can be probed ({reasons}). Check that it takes the "
            "tests in this form; if not, wrap it in score(completion, tests), as the guide shows"
            + ("" if has_network else ". It had no network; if it calls a server, add --network")
        )
    return Calibration(scales, unsupported)


def _measure_scale(judge: TargetJudge, problem: ProbeProblem, form: int) -> Scale | str:
    """Return the scale, or the reason that there is none."""
    completions = [fenced(problem.right_program()), fenced(problem.wrong_program()), _NO_PROGRAM]
    scored: list[tuple[float, str]] = []
    for completion, what in zip(completions, ("right answer", "wrong answer", "answer without a program"), strict=True):
        score = judge.score(completion, problem.suite, form)
        if score.value is None:
            judge.restart()
            if completion is _NO_PROGRAM:
                continue
            why = "it raised " + score.detail if score.fault == "raised" else score.detail or "it returned None"
            return f"the plainest {what} gets no number: {' '.join(why.split())}"
        scored.append((score.value, completion))
    # No signature defines a form for statements: a judge that ignores them accepts any program.
    wrong_reward, wrong = scored[1] if problem.convention is Convention.ASSERTS else min(scored[1:])
    return Scale(form, wrong_reward, scored[0][0], problem, scored[0][1], wrong)


class Prober:
    """A thread pool that submits attempts to one target; each thread has its own judge.

    open_judge   returns an unopened judge
    """

    def __init__(self, open_judge: Callable[[], TargetJudge], calibration: Calibration, *, jobs: int) -> None:
        self._open_judge, self._calibration, self._jobs = open_judge, calibration, jobs
        self._local = threading.local()
        self._judges: list[TargetJudge] = []

    def run(self, attempts: Iterable[Attempt]) -> Iterator[AttemptResult]:
        """Yield the result of each attempt, in order."""
        with ThreadPoolExecutor(self._jobs) as pool:
            try:
                for results in pool.map(self._run_chunk, _chunks(attempts)):
                    yield from results
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
                for judge in self._judges:
                    judge.close()

    def _judge(self) -> TargetJudge:
        if not hasattr(self._local, "judge"):
            self._local.judge = self._open_judge()
            self._local.judge.open()
            self._judges.append(self._local.judge)
        judge: TargetJudge = self._local.judge
        return judge

    def _run_chunk(self, attempts: Sequence[Attempt]) -> list[AttemptResult]:
        """Run some attempts; rerun each separately if one of them has corrupted the judge or ended its process."""
        judge = self._judge()
        scale = self._calibration.scales[attempts[0].problem.convention]
        results = [self._run_attempt(judge, scale, attempt) for attempt in attempts]
        if attempts[0].probe_class.group not in _HOSTILE:
            return results
        if len(attempts) == 1:
            return [_check_for_corruption(judge, scale, results[0])]
        if not any(map(_has_lost_process, results)) and not _find_corruption(judge, scale):
            return results
        judge.restart()
        return [_check_for_corruption(judge, scale, self._run_attempt(judge, scale, attempt)) for attempt in attempts]

    def _run_attempt(self, judge: TargetJudge, scale: Scale, attempt: Attempt) -> AttemptResult:
        submissions = make_submissions(attempt)
        suite = submissions.problem.suite
        for completion in submissions.earlier:
            judge.score(completion, suite, scale.form)
        scores = tuple(
            judge.score(completion, suite, scale.form, attempt.probe.condition)
            for completion in submissions.completions
        )
        return AttemptResult(
            attempt.id, attempt.kind, classify(attempt, scale, scores), scores,
            (*submissions.earlier, *submissions.completions), suite.to_json(),
        )  # fmt: skip


def _chunks(attempts: Iterable[Attempt]) -> Iterator[list[Attempt]]:
    """Yield batches of attempts, with one check of the judge's state after each batch."""
    chunk: list[Attempt] = []
    for attempt in attempts:
        same = chunk and (chunk[0].probe_class, chunk[0].problem) == (attempt.probe_class, attempt.problem)
        is_slow = attempt.probe.seconds > _SLOW_SECONDS
        if chunk and (not same or is_slow or len(chunk) == _MAX_CHUNK):
            yield chunk
            chunk = []
        if is_slow:
            yield [attempt]
        else:
            chunk.append(attempt)
    if chunk:
        yield chunk


def _has_lost_process(result: AttemptResult) -> bool:
    return any(score.fault in ("crashed", "hung") for score in result.scores)


def _check_for_corruption(judge: TargetJudge, scale: Scale, result: AttemptResult) -> AttemptResult:
    """Return the result or, if the judge now misjudges the simplest completions, that finding; then restart its
    process."""
    if _has_lost_process(result):
        return result  # it has already restarted
    error = _find_corruption(judge, scale)
    if error is None:
        return result
    judge.restart()
    found, detail = error
    return result if result.finding is Finding.REWARDED else replace(result, finding=found, detail=detail)


def _find_corruption(judge: TargetJudge, scale: Scale) -> tuple[Finding, str] | None:
    """Return the judge's error on the simplest completions; None if there is none."""
    wrong = judge.score(scale.wrong, scale.problem.suite, scale.form)
    if scale.is_rewarded(wrong):
        return Finding.REWARDED, "a wrong answer that came next was rewarded"
    right = judge.score(scale.right, scale.problem.suite, scale.form)
    if scale.is_rewarded(right) or right.fault == "unanswered":
        return None
    return Finding.CORRUPTED, f"a right answer that came next was not rewarded. {right.detail}".rstrip()


def classify(attempt: Attempt, scale: Scale, scores: Sequence[Score]) -> Finding:
    """Classify an attempt by its scores."""
    probe = attempt.probe
    rewarded = [scale.is_rewarded(score, fully=probe.is_partial) for score in scores]
    if attempt.probe_class.group is Group.OUTAGE:
        return _classify_outage(probe.is_correct, scores, rewarded)
    if all(rewarded):
        return Finding.SOUND if probe.is_correct else Finding.LENIENT if probe.leniency else Finding.REWARDED
    missing = next((score for score in scores if score.value is None), None)
    if missing is not None and (probe.is_correct or missing.fault):
        return _FINDINGS_BY_FAULT.get(missing.fault, Finding.CRASHED)
    return Finding.REFUSED if probe.is_correct else Finding.SOUND


def _classify_outage(right: bool, scores: Sequence[Score], rewarded: Sequence[bool]) -> Finding:
    """Classify an outage: a right completion must keep its reward, or have an unknown one."""
    if all(rewarded):
        return Finding.SOUND if right else Finding.REWARDED
    if any(score.fault == "hung" for score in scores):
        return Finding.HUNG
    return Finding.OUTAGE if right and any(score.value is not None for score in scores) else Finding.SOUND
