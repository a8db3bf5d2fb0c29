"""1.0 if the final answer to a math problem equals the expected one according to math-verify, else 0.0.

The final answer is the last complete `\\boxed{...}` after the thinking. Without one, it is the number in the last
`\\boxed 33`, or the content of the only `<answer>` element. A final period does not count. math-verify parses both
answers as LaTeX, so 0.5, 1/2 and \\frac{2}{4} are equal.

If a comparison times out, for instance on a tower of powers, the answer is wrong. The reward is unknown if the sandbox
fails, or if the expected answer cannot be parsed and the texts differ.

Each comparison is a program in the sandbox (see math_comparison.py), forked from an interpreter that has imported
math-verify.
"""

import json
import os
import re
import threading
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from weakref import WeakValueDictionary

from rewards import math_comparison
from rewards.argument_checks import check_int
from rewards.extract.thinking import strip_thinking
from rewards.form import ANSWER_BEGIN, ANSWER_END
from rewards.reward import (
    ACCEPTED,
    CHECKER_FAILED,
    NO_ANSWER,
    TESTS_FAILED,
    TIME_LIMIT,
    TRUNCATED,
    WRONG_ANSWER,
    Completion,
    Reward,
    Task,
)
from sandbox import Limits, Outcome, Program, RunResult, Sandbox, SandboxError, machine
from sandbox.closeable import Closeable
from sandbox.concurrency.single_flight import SingleFlightCache
from sandbox.extras import format_install_command

_BOXED = r"\boxed"
_BRACES = re.compile(r"\\boxed\s*+\{|\\.|[{}]", re.DOTALL)
_BOXED_NUMBER = re.compile(r"\\boxed[ \t]++([+-]?(?:\d++(?:\.\d++)?+|\.\d++))")
_MATH_DELIMITERS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"))
_MAX_ANSWER_CHARACTERS = 4096  # longer answers are wrong without a comparison
_CACHE_SIZE = 10_000
_PACKAGE, _MODULE = "math-verify", "math_comparison"
_SOURCE = Path(math_comparison.__file__).read_text("utf-8")
_PRELOADED_PROGRAM = Program(f"from {_MODULE} import main\nmain()\n")
_FULL_PROGRAM = Program(f"{_SOURCE}\nmain()\n")  # for a sandbox that has not preloaded the module
_CPU_SECONDS = math_comparison.EXPECTED_CPU_SECONDS + math_comparison.CPU_SECONDS + 1
# The CPU limit stops slow comparisons. The wall limit is larger, for busy machines.
_LIMITS = Limits(4 * _CPU_SECONDS, _CPU_SECONDS, memory_mb=1024, processes=1, output_kb=64, disk_mb=1)
_TRIVIAL_ANSWER = "1"  # an answer that is quick to compare
_RIGHT, _WRONG, _TOO_SLOW = Reward(1.0, ACCEPTED), Reward(0.0, WRONG_ANSWER), Reward(0.0, TIME_LIMIT)
_UNREADABLE = Reward(None, TESTS_FAILED, detail="the expected answer cannot be read")
_REWARDS = {b"right": _RIGHT, b"wrong": _WRONG, b"unreadable": _UNREADABLE}  # by output of the program

_lock = threading.Lock()
_shared: WeakValueDictionary[tuple[int, int], Sandbox] = WeakValueDictionary()  # by process id and workers


class MathReward(Closeable):
    """A reward that compares answers in the sandbox. Use it as a context manager, or call close().

    processes   maximum number of concurrent comparisons, in a local sandbox that all rewards of this process share;
                default: one per available CPU
    box         sandbox to use instead, on any backend. It needs the package math-verify, which each comparison imports

    Raises ModuleNotFoundError if math-verify is not installed and, when called, ValueError for a task without an
    expected answer.
    """

    def __init__(self, processes: int | None = None, *, box: Sandbox | None = None) -> None:
        if processes is not None:
            check_int("processes", processes)
        if box is None and find_spec("math_verify") is None:
            raise ModuleNotFoundError(
                f"the reward for mathematics needs math-verify; run: {format_install_command('math')}"
            )
        self._workers = processes or machine.count_cpus()
        self._given_box = box
        self._boxes: dict[int, Sandbox] = {}  # by process id, because a forked child cannot use its parent's
        self._slow: set[str] = set()  # expected answers whose parsing times out
        self._rewards: SingleFlightCache[Reward] = SingleFlightCache(_CACHE_SIZE)

    def __call__(self, completion: Completion, task: Task) -> Reward:
        begun = time.perf_counter()
        reward = self._score(completion, task)
        return replace(reward, seconds=time.perf_counter() - begun)

    def close(self) -> None:
        """Release the shared sandbox, which closes when no reward uses it."""
        self._boxes.clear()

    def _score(self, completion: Completion, task: Task) -> Reward:
        if not task.expected.strip():
            raise ValueError("a reward for mathematics needs an expected answer; this task has none")
        given = extract_final_answer(completion.text)
        if given is None:
            return Reward(0.0, TRUNCATED if completion.truncated else NO_ANSWER)
        if len(given) > _MAX_ANSWER_CHARACTERS:
            return Reward(0.0, WRONG_ANSWER)
        expected = _strip_delimiters(task.expected)
        return self._rewards.get((expected, given), lambda: self._compare(expected, given), _is_known)

    def _compare(self, expected: str, given: str) -> Reward:
        try:
            reward = None if expected in self._slow else _parse_result(self._run(expected, given))
            if reward is None:
                reward = self._find_cause(expected) or (_RIGHT if expected == given else _UNREADABLE)
            return reward
        except SandboxError as error:
            return Reward(None, CHECKER_FAILED, detail=str(error))

    def _find_cause(self, expected: str) -> Reward | None:
        """Return the reward after a comparison without a result; None if the expected answer is the cause.

        Raises SandboxError if even a trivial comparison fails.
        """
        if expected not in self._slow:
            if (reward := _parse_result(self._run(expected, _TRIVIAL_ANSWER))) is not None:
                return _UNREADABLE if reward == _UNREADABLE else _TOO_SLOW
            if _parse_result(result := self._run(_TRIVIAL_ANSWER, _TRIVIAL_ANSWER)) != _RIGHT:
                message = result.stderr[-500:].decode("utf-8", "replace").strip()
                raise SandboxError(f'the sandbox cannot compare answers; it needs packages=["{_PACKAGE}"]: {message}')
            self._slow.add(expected)
        return None

    def _run(self, expected: str, given: str) -> RunResult:
        box = self._given_box
        if box is None and (box := self._boxes.get(os.getpid())) is None:
            box = self._boxes[os.getpid()] = _get_shared_box(self._workers)
        return box.run(_FULL_PROGRAM if self._given_box else _PRELOADED_PROGRAM, json.dumps([expected, given]), _LIMITS)


def _parse_result(result: RunResult) -> Reward | None:
    """Return the reward for the output of a comparison; None if it did not exit normally or has another output."""
    return _REWARDS.get(result.stdout) if (result.outcome, result.exit_code) == (Outcome.EXITED, 0) else None


def _get_shared_box(workers: int) -> Sandbox:
    key = os.getpid(), workers
    with _lock:
        if (box := _shared.get(key)) is None:
            modules = {_MODULE: f"{_SOURCE}\nwarm_up()\n"}
            box = Sandbox(workers, isolation="best-effort", packages=[_PACKAGE], modules=modules)
            _shared[key] = box
        return box


def _is_known(reward: Reward) -> bool:
    return reward.value is not None


def extract_final_answer(text: str) -> str | None:
    """Return the LaTeX of the final answer; None without one. Takes linear time on any text."""
    without_thinking = strip_thinking(text, lambda part: _find_last_answer(part) is not None)
    return None if without_thinking is None else _find_last_answer(without_thinking)


def _find_last_answer(text: str) -> str | None:
    latex = _find_last_boxed(text)
    if latex is None and (numbers := _BOXED_NUMBER.findall(text)):
        latex = numbers[-1]
    if latex is None and text.count(ANSWER_BEGIN) == text.count(ANSWER_END) == 1:
        latex = text.partition(ANSWER_BEGIN)[2].partition(ANSWER_END)[0]
    return None if latex is None else _strip_delimiters(latex) or None


def _find_last_boxed(text: str) -> str | None:
    """Return the content of the last complete box, the outermost one if boxes are nested; None without a box."""
    open_braces: list[int | None] = []  # for each open brace, the offset of the content of its box; None without a box
    last: tuple[int, int] | None = None
    for match in _BRACES.finditer(text):
        if match[0] == "{":
            open_braces.append(None)
        elif match[0].startswith(_BOXED):
            open_braces.append(match.end())
        elif match[0] == "}" and open_braces:
            begin = open_braces.pop()
            last = last if begin is None else (begin, match.start())
    return None if last is None else text[slice(*last)]


def _strip_delimiters(latex: str) -> str:
    """Return an answer without its enclosing box and math delimiters, and without its final period."""
    latex = _strip_period(latex)
    if (boxed := _find_last_boxed(latex)) is not None:
        latex = _strip_period(boxed)
    for begin, end in _MATH_DELIMITERS:
        if latex.startswith(begin) and latex.endswith(end) and len(latex) >= len(begin) + len(end):
            latex = _strip_period(latex[len(begin) : -len(end)])
    return latex


def _strip_period(latex: str) -> str:
    latex = latex.strip()
    return latex if latex.endswith("..") else latex.removesuffix(".").rstrip()
