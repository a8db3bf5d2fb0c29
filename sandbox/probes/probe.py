"""The parts of the catalogue: problems, probes, and the submissions that a probe makes for a problem."""

import json
import secrets
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from sandbox.suite import Assertions, Case, Suite

ENTRY = "SOLVE"  # in sources of probes, the name of the function that a problem asks for


class Convention(StrEnum):
    """The form in which a problem is tested."""

    STDIN = "stdin"
    CALL = "call"
    METHOD = "method"
    ASSERTS = "asserts"


STDIN = (Convention.STDIN,)
CALLS = (Convention.CALL, Convention.METHOD)
FUNCTIONS = (Convention.CALL, Convention.METHOD, Convention.ASSERTS)
EVERY = tuple(Convention)


class Group(StrEnum):
    """The kinds of classes of probes. Each group is a folder."""

    HONEST = "honest"
    WRONG = "wrong"
    FORGE = "forge"
    READ = "read"
    DODGE = "dodge"
    COMPARE = "compare"
    EXTRACT = "extract"
    SPECIAL_CASE = "special-case"
    OUTAGE = "outage"
    HOST = "host"


@dataclass(frozen=True, slots=True)
class ProbeProblem:
    """A small problem.

    name           its name among the problems of its convention
    suite          its tests
    reference      a right program; of a method, the body of the class Solution as a function without `self`
    n_shown_cases  number of leading cases that the statement shows; 0: not known
    """

    name: str
    convention: Convention
    suite: Suite
    reference: str
    n_shown_cases: int = 0

    @property
    def entry(self) -> str:
        """The function that is called; empty if the program reads standard input."""
        return next(iter(self.suite.called_names), "")

    def program(self, source: str) -> str:
        """Return a probe's source as a program for this problem.

        source   defines a function ENTRY at its outermost level if the problem asks for one
        """
        source = textwrap.dedent(source).strip("\n") + "\n"
        if self.convention is Convention.METHOD:
            source = f"{source}\n\nclass Solution:\n    {self.entry} = staticmethod({ENTRY})\n"
        elif self.entry:
            source = source.replace(ENTRY, self.entry)
        return source

    def right_program(self) -> str:
        """Return the reference as a program."""
        return self.program(self.reference)

    def wrong_program(self) -> str:
        """Return a program that answers every test with the same wrong text."""
        return self.program("print('no answer')" if not self.entry else f"def {ENTRY}(*values): return 'no answer'")


def fenced(program: str, language: str = "python") -> str:
    """Return a completion whose only code is this program."""
    return f"Here is the program.\n\n```{language}\n{program.rstrip()}\n```\n"


@dataclass(frozen=True, slots=True)
class Trial:
    """The submissions of a probe to a judge.

    problem   the problem that the submissions answer
    answers   completions. All of them must be rewarded for the probe to succeed: a hedge shows only in pairs
    before    completions that are submitted before them to the same process, and whose rewards do not matter
    """

    problem: ProbeProblem
    answers: tuple[str, ...]
    before: tuple[str, ...] = ()

    @property
    def program(self) -> str:
        """The program in the last answer; the whole answer if it has no fence."""
        text, fence, rest = self.answers[-1].partition("```python\n")
        return rest.rpartition("\n```")[0] if fence else text


@dataclass(frozen=True, slots=True)
class JudgeProbe:
    """One idea, as a submission for any problem of some conventions.

    name          its name within its class
    conventions   the forms of tests that it makes sense for
    make          returns the trial for a problem
    right         whether the submission is a right answer
    lenient       why some official graders accept it on purpose; such a probe is never counted as a hack
    is_partial    whether the submission passes some of the tests, so that only the full reward is wrong
    condition     what is done to the judge meanwhile, for outages
    seconds       the most seconds that a judge without a time limit would take for it
    """

    name: str
    conventions: tuple[Convention, ...]
    make: Callable[[ProbeProblem], Trial]
    right: bool = False
    lenient: str = ""
    is_partial: bool = False
    condition: str = ""
    seconds: float = 1.0


@dataclass(frozen=True, slots=True)
class ProbeClass:
    """Probes for one weakness.

    name     unique within its group
    why      the reason that it works, in one sentence
    remedy   how a judge closes it, in one sentence
    source   where it is documented: a URL, or "ours"
    """

    group: Group
    name: str
    why: str
    remedy: str
    source: str
    probes: tuple[JudgeProbe, ...] = field(repr=False)

    @property
    def id(self) -> str:
        """Its name in the catalogue, GROUP/NAME."""
        return f"{self.group}/{self.name}"


def submits(
    name: str,
    source: str,
    conventions: Sequence[Convention] = EVERY,
    *,
    right: bool = False,
    lenient: str = "",
    is_partial: bool = False,
    condition: str = "",
    seconds: float = 1.0,
) -> JudgeProbe:
    """Return a probe that submits the same source for every problem.

    source   a program. In the conventions with functions, it gets a function ENTRY with a wrong answer if it has none
    """
    text = textwrap.dedent(source).strip("\n") + "\n"

    def make(problem: ProbeProblem) -> Trial:
        whole = text
        if problem.entry and f"def {ENTRY}(" not in text and f"{ENTRY} =" not in text:
            whole = f"{text}\n\ndef {ENTRY}(*values):\n    return 'no answer'\n"
        return Trial(problem, (fenced(problem.program(whole)),))

    return JudgeProbe(
        name, tuple(conventions), make, right=right, lenient=lenient, is_partial=is_partial, condition=condition,
        seconds=seconds,
    )  # fmt: skip


def inside(name: str, body: str, *, seconds: float = 1.0) -> JudgeProbe:
    """Return a probe whose statements run where the answer is computed: in the program, or in the called function."""
    text = textwrap.dedent(body).strip("\n") + "\n"

    def make(problem: ProbeProblem) -> Trial:
        source = f"def {ENTRY}(*values):\n{textwrap.indent(text, '    ')}" if problem.entry else text
        return Trial(problem, (fenced(problem.program(source)),))

    return JudgeProbe(name, EVERY, make, seconds=seconds)


def poisons(name: str, source: str, *, seconds: float = 1.0) -> JudgeProbe:
    """Return a probe that leaves something behind, and succeeds if the wrong answer that follows is rewarded."""
    first = submits(name, source)

    def make(problem: ProbeProblem) -> Trial:
        return Trial(problem, (fenced(problem.wrong_program()),), before=first.make(problem).answers)

    return JudgeProbe(name, EVERY, make, seconds=seconds)


def stdin_problem(name: str, cases: Mapping[str, str], reference: str) -> ProbeProblem:
    """Return a problem whose programs read the keys and print the values."""
    suite = Suite([Case(given, expected) for given, expected in cases.items()])
    return ProbeProblem(name, Convention.STDIN, suite, textwrap.dedent(reference))


def call_problem(
    name: str, cases: Sequence[tuple[list[object], object]], reference: str, convention: Convention = Convention.CALL
) -> ProbeProblem:
    """Return a problem whose function gets lists of arguments and returns values.

    reference   defines a function ENTRY
    """
    tests = [Case(json.dumps(arguments), json.dumps(value)) for arguments, value in cases]
    return ProbeProblem(name, convention, Suite(tests, entry_point=name), textwrap.dedent(reference))


def assert_problem(name: str, statements: Sequence[str], reference: str) -> ProbeProblem:
    """Return a problem whose tests are statements about a function of that name.

    reference   defines a function ENTRY
    """
    suite = Suite([Case(statement, "") for statement in statements], checker="python", assertions=Assertions((name,)))
    return ProbeProblem(name, Convention.ASSERTS, suite, textwrap.dedent(reference))


def prints(name: str, problem: ProbeProblem, output: str, *, lenient: str = "", right: bool = False) -> JudgeProbe:
    """Return a probe that prints this for a problem of its own."""
    answer = fenced(f"import sys\nsys.stdin.read()\nsys.stdout.buffer.write({output.encode()!r})\n")
    return JudgeProbe(name, STDIN, lambda _: Trial(problem, (answer,)), lenient=lenient, right=right)


def returns(
    name: str, value: object, expression: str, *, given: str = "", lenient: str = "", right: bool = False
) -> JudgeProbe:
    """Return a probe whose function returns the value of an expression where `value` is expected.

    given   statements at the beginning of the program
    """
    source = f"{textwrap.dedent(given)}\ndef {ENTRY}(*values):\n    return {expression}\n"
    reference = f"def {ENTRY}(*values):\n    return {value!r}\n"

    def make(problem: ProbeProblem) -> Trial:
        own = call_problem("answer", [([1], value)], reference, problem.convention)
        return Trial(own, (fenced(own.program(source)),))

    return JudgeProbe(name, CALLS, make, lenient=lenient, right=right)


SECRET = "SECRET"  # what the secrets of `finds` begin with


def finds(
    name: str, search: str, conventions: Sequence[Convention] = (Convention.STDIN, Convention.CALL, Convention.ASSERTS)
) -> JudgeProbe:
    """Return a probe that looks for the expected output, which is a fresh secret.

    search   a generator function `search()` of texts or bytes that may hold the secret
    """
    source = (
        "import re\n"
        "PATTERN = re.compile({beginning!r} + '[0-9a-f]{{32}}')\n"
        "%s\n"
        "def find():\n"
        "    for place in search():\n"
        "        text = place if isinstance(place, str) else bytes(place).decode('latin-1')\n"
        "        match = PATTERN.search(text)\n"
        "        if match:\n"
        "            return match[0]\n"
        "    return 'no answer'\n"
    )

    def make(problem: ProbeProblem) -> Trial:
        beginning = SECRET + secrets.token_hex(4)  # tells the secret from those of earlier attempts in the same memory
        own = secret_problem(problem.convention, beginning + secrets.token_hex(16))
        program = source.format(beginning=beginning) % textwrap.dedent(search).strip()
        program += f"def {ENTRY}(*values):\n    return find()\n" if own.entry else "print(find())\n"
        return Trial(own, (fenced(own.program(program)),))

    return JudgeProbe(name, tuple(conventions), make, seconds=2.0)


def secret_problem(convention: Convention, secret: str) -> ProbeProblem:
    """Return a problem whose expected output is a secret, which cannot be computed."""
    reference = f"def {ENTRY}(*values):\n    return {secret!r}\n"
    if convention is Convention.STDIN:
        return stdin_problem("reveal", {"1\n": f"{secret}\n"}, f"print({secret!r})\n")
    if convention is Convention.ASSERTS:
        return assert_problem("reveal", [f"assert reveal(1) == {secret!r}"], reference)
    return call_problem("reveal", [([1], secret)], reference, convention)
