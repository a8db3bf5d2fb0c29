"""Submission of probes to a target: its calibration, the attempts, and the classification of their results."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from curate.probe.attempts import Attempt, AttemptResult, Finding
from curate.probe.forms import UnusableTarget
from curate.probe.target import Score, TargetDescription, TargetJudge
from sandbox.probes.probe import Convention, Group, ProbeProblem, format_completion

# Submissions of these groups may change state in the target's process.
_HOSTILE = (Group.FORGE, Group.READ, Group.DODGE, Group.HOST)
_MAX_CHUNK = 6
_SLOW_SECONDS = 3.0
_NO_PROGRAM = "I cannot solve this problem."
_FINDINGS_BY_FAULT = {"hung": Finding.HUNG, "": Finding.UNKNOWN, "unanswered": Finding.UNKNOWN}


@dataclass(frozen=True, slots=True)
class Scale:
    """The rewards of the simplest right and wrong submissions in one convention.

    form                        index in the target's `forms`
    problem                     the problem of both submissions
    right, wrong                the submissions, as completions
    right_reward, wrong_reward  their rewards
    """

    form: int
    wrong_reward: float
    right_reward: float
    problem: ProbeProblem
    right: str
    wrong: str

    def is_rewarded(self, score: Score, *, require_full: bool = False) -> bool:
        """Return whether a score exceeds the mean of both rewards; with `require_full`, whether it is the right one."""
        if score.value is None:
            return False
        if require_full:
            return score.value >= self.right_reward - 1e-6 * (self.right_reward - self.wrong_reward)
        return score.value > (self.right_reward + self.wrong_reward) / 2


@dataclass(frozen=True, slots=True)
class Calibration:
    """The scales of the supported conventions, and the reasons why the others are unsupported."""

    scales: dict[Convention, Scale]
    unsupported: dict[Convention, str]


def calibrate(judge: TargetJudge, target: TargetDescription, problems: Sequence[ProbeProblem]) -> Calibration:
    """Submit the simplest right and wrong completion of each convention.

    Raises UnusableTarget if the target supports no convention.
    """
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
                f"the simplest right submission gets {best.right_reward:g}, and a wrong one {best.wrong_reward:g}"
            )
        else:
            scales[convention], form = best, best.form
    if not scales:
        reasons = "; ".join(
            f"{', '.join(name for name, other in unsupported.items() if other == reason)}: {reason}"
            for reason in dict.fromkeys(unsupported.values())
        )
        has_network = target.protections.get("network", "none").startswith("none")
        raise UnusableTarget(
            f"it does not distinguish right and wrong submissions ({reasons}). Check that it accepts tests in this "
            "format; if not, wrap it in score(completion, tests), as the guide shows"
            + ("" if has_network else ". It had no network; if it calls a server, add --network")
        )
    return Calibration(scales, unsupported)


def _measure_scale(judge: TargetJudge, problem: ProbeProblem, form: int) -> Scale | str:
    """Return the scale of a problem's convention, or the reason why the convention is unsupported."""
    completions = [
        format_completion(problem.build_correct_program()),
        format_completion(problem.build_wrong_program()),
        _NO_PROGRAM,
    ]
    scored: list[tuple[float, str]] = []
    names = ("right submission", "wrong submission", "completion without a program")
    for completion, name in zip(completions, names, strict=True):
        score = judge.score(completion, problem.suite, form)
        if score.value is None:
            judge.restart()
            if completion is _NO_PROGRAM:
                continue
            why = "it raised " + score.detail if score.fault == "raised" else score.detail or "it returned None"
            return f"the simplest {name} gets no number: {' '.join(why.split())}"
        scored.append((score.value, completion))
    # No signature defines a format for tests in Python; a judge that ignores these accepts any program.
    wrong_reward, wrong = scored[1] if problem.convention is Convention.ASSERTS else min(scored[1:])
    return Scale(form, wrong_reward, scored[0][0], problem, scored[0][1], wrong)


class Prober:
    """A thread pool that submits attempts to one target. Each thread opens its own judge, from `create_judge`."""

    def __init__(self, create_judge: Callable[[], TargetJudge], calibration: Calibration, *, jobs: int) -> None:
        self._create_judge, self._calibration, self._jobs = create_judge, calibration, jobs
        self._local = threading.local()
        self._judges: list[TargetJudge] = []

    def run(self, attempts: Iterable[Attempt]) -> Iterator[AttemptResult]:
        """Yield the result of each attempt, in order."""
        with ThreadPoolExecutor(self._jobs) as pool:
            try:
                for results in pool.map(self._run_chunk, _split_into_chunks(attempts)):
                    yield from results
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
                for judge in self._judges:
                    judge.close()

    def _get_judge(self) -> TargetJudge:
        if not hasattr(self._local, "judge"):
            self._local.judge = self._create_judge()
            self._local.judge.open()
            self._judges.append(self._local.judge)
        judge: TargetJudge = self._local.judge
        return judge

    def _run_chunk(self, attempts: Sequence[Attempt]) -> list[AttemptResult]:
        """Run attempts on one problem. If one corrupted the judge or ended its process, rerun each separately."""
        judge = self._get_judge()
        scale = self._calibration.scales[attempts[0].problem.convention]
        results = [self._run_attempt(judge, scale, attempt) for attempt in attempts]
        if attempts[0].probe_class.group not in _HOSTILE:
            return results
        if len(attempts) == 1:
            return [_check_for_corruption(judge, scale, results[0])]
        if not any(map(_has_ended_process, results)) and not _find_corruption(judge, scale):
            return results
        judge.restart()
        return [_check_for_corruption(judge, scale, self._run_attempt(judge, scale, attempt)) for attempt in attempts]

    def _run_attempt(self, judge: TargetJudge, scale: Scale, attempt: Attempt) -> AttemptResult:
        submissions = attempt.probe.make_submissions(attempt.problem)
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


def _split_into_chunks(attempts: Iterable[Attempt]) -> Iterator[list[Attempt]]:
    """Yield chunks of attempts of one class and problem; each chunk shares one check of the judge's state."""
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


def _has_ended_process(result: AttemptResult) -> bool:
    return any(score.fault in ("crashed", "hung") for score in result.scores)


def _check_for_corruption(judge: TargetJudge, scale: Scale, result: AttemptResult) -> AttemptResult:
    """Return the result, with another finding if the judge now misjudges the simplest submissions."""
    # After a crash or a timeout, the judge has restarted.
    if _has_ended_process(result):
        return result
    error = _find_corruption(judge, scale)
    if error is None:
        return result
    judge.restart()
    finding, detail = error
    return result if result.finding is Finding.REWARDED else replace(result, finding=finding, detail=detail)


def _find_corruption(judge: TargetJudge, scale: Scale) -> tuple[Finding, str] | None:
    """Submit the simplest submissions again. Return the finding and its detail; None if the judge is right."""
    wrong = judge.score(scale.wrong, scale.problem.suite, scale.form)
    if scale.is_rewarded(wrong):
        return Finding.REWARDED, "the judge rewarded the next submission, which was wrong"
    right = judge.score(scale.right, scale.problem.suite, scale.form)
    if scale.is_rewarded(right) or right.fault == "unanswered":
        return None
    return Finding.CORRUPTED, f"the judge did not reward the next submission, which was right. {right.detail}".rstrip()


def classify(attempt: Attempt, scale: Scale, scores: Sequence[Score]) -> Finding:
    probe = attempt.probe
    rewarded = [scale.is_rewarded(score, require_full=probe.is_partial) for score in scores]
    if attempt.probe_class.group is Group.OUTAGE:
        return _classify_outage(scores, rewarded, is_correct=probe.is_correct)
    if all(rewarded):
        return Finding.SOUND if probe.is_correct else Finding.LENIENT if probe.leniency else Finding.REWARDED
    missing = next((score for score in scores if score.value is None), None)
    if missing is not None and (probe.is_correct or missing.fault):
        return _FINDINGS_BY_FAULT.get(missing.fault, Finding.CRASHED)
    return Finding.REFUSED if probe.is_correct else Finding.SOUND


def _classify_outage(scores: Sequence[Score], rewarded: Sequence[bool], *, is_correct: bool) -> Finding:
    """Classify an attempt during an outage. A right submission must get its usual reward or an unknown one."""
    if all(rewarded):
        return Finding.SOUND if is_correct else Finding.REWARDED
    if any(score.fault == "hung" for score in scores):
        return Finding.HUNG
    return Finding.OUTAGE if is_correct and any(score.value is not None for score in scores) else Finding.SOUND
