"""The types of the catalogue: problems, probes, and a probe's submissions for a problem."""

import json
import secrets
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from sandbox.suite import Assertions, Case, Suite

ENTRY = "SOLVE"  # placeholder, in sources of probes, for the name of the function that the tests call


class Convention(StrEnum):
    """The form of a problem's tests."""

    STDIN = "stdin"
    CALL = "call"
    METHOD = "method"
    ASSERTS = "asserts"


STDIN = (Convention.STDIN,)
CALLS = (Convention.CALL, Convention.METHOD)
FUNCTIONS = (Convention.CALL, Convention.METHOD, Convention.ASSERTS)
ALL_CONVENTIONS = tuple(Convention)


class Group(StrEnum):
    """A group of probe classes; each group is a folder."""

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
    """A small problem, to which submissions are solutions or hacks.

    name           unique within its convention; the name of the called function, if any
    reference      a correct program; for a method, a function without `self`
    n_shown_cases  number of leading cases shown in the statement; 0 if unknown
    """

    name: str
    convention: Convention
    suite: Suite
    reference: str
    n_shown_cases: int = 0

    @property
    def entry(self) -> str:
        """The name of the called function; empty if programs read standard input."""
        return next(iter(self.suite.called_names), "")

    def adapt_source(self, source: str) -> str:
        """Adapt a probe's source to this problem.

        source   defines ENTRY at module level if the tests call a function
        """
        source = textwrap.dedent(source).strip("\n") + "\n"
        if self.convention is Convention.METHOD:
            source = f"{source}\n\nclass Solution:\n    {self.entry} = staticmethod({ENTRY})\n"
        elif self.entry:
            source = source.replace(ENTRY, self.entry)
        return source

    def build_correct_program(self) -> str:
        return self.adapt_source(self.reference)

    def build_wrong_program(self) -> str:
        """Return a program with the same wrong output for every test."""
        return self.adapt_source(
            "print('no answer')" if not self.entry else f"def {ENTRY}(*values): return 'no answer'"
        )


def format_completion(program: str, language: str = "python") -> str:
    """Format a program as a completion with a fenced block."""
    return f"Here is the program.\n\n```{language}\n{program.rstrip()}\n```\n"


@dataclass(frozen=True, slots=True)
class Submissions:
    """The submissions of a probe to a judge.

    completions  the submissions; the probe succeeds if the judge rewards all of them, such as both orders of a hedge
    earlier      completions to submit first, to the same process; their rewards do not count
    """

    problem: ProbeProblem
    completions: tuple[str, ...]
    earlier: tuple[str, ...] = ()

    @property
    def program(self) -> str:
        """The program in the last completion; the whole completion if it has no fence."""
        text, fence, rest = self.completions[-1].partition("```python\n")
        return rest.rpartition("\n```")[0] if fence else text


@dataclass(frozen=True, slots=True)
class JudgeProbe:
    """One technique, which makes submissions for any problem of some conventions.

    name              unique within its class
    conventions       the applicable forms of tests
    make_submissions  returns the submissions for a problem, or for its own variant with fresh secrets
    is_correct        whether the submission is correct
    leniency          why some official graders accept it on purpose; such a probe never counts as a hack
    is_partial        whether the submission passes some of the tests, so that partial credit is not wrong
    condition         name of the judge's outage during the submission; empty for none
    seconds           maximum duration of the submission under a judge without a time limit
    """

    name: str
    conventions: tuple[Convention, ...]
    make_submissions: Callable[[ProbeProblem], Submissions]
    is_correct: bool = False
    leniency: str = ""
    is_partial: bool = False
    condition: str = ""
    seconds: float = 1.0


@dataclass(frozen=True, slots=True)
class ProbeClass:
    """Probes for one weakness.

    name     unique within its group
    why      one sentence: the judge's weakness
    remedy   one sentence: the fix
    source   URL of a description, or "ours"
    """

    group: Group
    name: str
    why: str
    remedy: str
    source: str
    probes: tuple[JudgeProbe, ...] = field(repr=False)

    @property
    def id(self) -> str:
        """The name in the catalogue, GROUP/NAME."""
        return f"{self.group}/{self.name}"


def make_source_probe(
    name: str, source: str, conventions: Sequence[Convention] = ALL_CONVENTIONS, *, seconds: float = 1.0
) -> JudgeProbe:
    """Return a probe that submits the same source for every problem.

    source   a program; if the tests call a function ENTRY that it lacks, the probe appends one with a wrong result
    """
    text = textwrap.dedent(source).strip("\n") + "\n"

    def make(problem: ProbeProblem) -> Submissions:
        whole = text
        if problem.entry and f"def {ENTRY}(" not in text and f"{ENTRY} =" not in text:
            whole = f"{text}\n\ndef {ENTRY}(*values):\n    return 'no answer'\n"
        return Submissions(problem, (format_completion(problem.adapt_source(whole)),))

    return JudgeProbe(name, tuple(conventions), make, seconds=seconds)


def make_body_probe(name: str, body: str) -> JudgeProbe:
    """Return a probe whose statements run in the called function or, for stdin problems, at module level."""
    text = textwrap.dedent(body).strip("\n") + "\n"

    def make(problem: ProbeProblem) -> Submissions:
        source = f"def {ENTRY}(*values):\n{textwrap.indent(text, '    ')}" if problem.entry else text
        return Submissions(problem, (format_completion(problem.adapt_source(source)),))

    return JudgeProbe(name, ALL_CONVENTIONS, make)


def make_completion_probe(
    name: str, write_completion: Callable[[str, str], str], leniency: str = "", *, is_correct: bool = False
) -> JudgeProbe:
    """Return a probe that submits write_completion(correct_program, wrong_program)."""

    def make(problem: ProbeProblem) -> Submissions:
        correct, wrong = problem.build_correct_program().rstrip(), problem.build_wrong_program().rstrip()
        return Submissions(problem, (write_completion(correct, wrong),))

    return JudgeProbe(name, ALL_CONVENTIONS, make, is_correct=is_correct, leniency=leniency)


def make_poison_probe(name: str, source: str) -> JudgeProbe:
    """Return a probe whose source corrupts shared state, so that a weak judge then rewards a wrong program."""
    first = make_source_probe(name, source)

    def make(problem: ProbeProblem) -> Submissions:
        return Submissions(
            problem,
            (format_completion(problem.build_wrong_program()),),
            earlier=first.make_submissions(problem).completions,
        )

    return JudgeProbe(name, ALL_CONVENTIONS, make)


def make_stdin_problem(name: str, cases: Mapping[str, str], reference: str) -> ProbeProblem:
    """Return a problem whose programs read an input and print an output. cases: input -> expected output."""
    suite = Suite([Case(given, expected) for given, expected in cases.items()])
    return ProbeProblem(name, Convention.STDIN, suite, textwrap.dedent(reference))


def make_call_problem(
    name: str, cases: Sequence[tuple[list[object], object]], reference: str, convention: Convention = Convention.CALL
) -> ProbeProblem:
    """Return a problem whose tests call a function.

    cases       arguments and expected value of each call
    reference   defines a function ENTRY
    """
    tests = [Case(json.dumps(arguments), json.dumps(value)) for arguments, value in cases]
    return ProbeProblem(name, convention, Suite(tests, entry_point=name), textwrap.dedent(reference))


def make_assert_problem(name: str, statements: Sequence[str], reference: str) -> ProbeProblem:
    """Return a problem whose tests are statements that call a function with this name.

    reference   defines a function ENTRY
    """
    suite = Suite([Case(statement, "") for statement in statements], checker="python", assertions=Assertions((name,)))
    return ProbeProblem(name, Convention.ASSERTS, suite, textwrap.dedent(reference))


def make_output_probe(name: str, problem: ProbeProblem, output: str, *, leniency: str = "") -> JudgeProbe:
    """Return a probe whose submission prints `output` as the answer to `problem`."""
    completion = format_completion(f"import sys\nsys.stdin.read()\nsys.stdout.buffer.write({output.encode()!r})\n")
    return JudgeProbe(name, STDIN, lambda _: Submissions(problem, (completion,)), leniency=leniency)


def make_value_probe(name: str, value: object, expression: str, *, leniency: str = "") -> JudgeProbe:
    """Return a probe whose function returns the value of an expression where `value` is expected."""
    source = f"def {ENTRY}(*values):\n    return {expression}\n"
    reference = f"def {ENTRY}(*values):\n    return {value!r}\n"

    def make(problem: ProbeProblem) -> Submissions:
        own = make_call_problem("answer", [([1], value)], reference, problem.convention)
        return Submissions(own, (format_completion(own.adapt_source(source)),))

    return JudgeProbe(name, CALLS, make, leniency=leniency)


SECRET = "SECRET"  # prefix of all secrets


def make_search_probe(
    name: str, search: str, conventions: Sequence[Convention] = (Convention.STDIN, Convention.CALL, Convention.ASSERTS)
) -> JudgeProbe:
    """Return a probe that searches for the expected output, a fresh secret.

    search   source of a generator function `search()`, which yields strings or bytes that may contain the secret
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

    def make(problem: ProbeProblem) -> Submissions:
        beginning = SECRET + secrets.token_hex(4)  # earlier secrets may still be in the memory
        own = make_secret_problem(problem.convention, beginning + secrets.token_hex(16))
        program = source.format(beginning=beginning) % textwrap.dedent(search).strip()
        program += f"def {ENTRY}(*values):\n    return find()\n" if own.entry else "print(find())\n"
        return Submissions(own, (format_completion(own.adapt_source(program)),))

    return JudgeProbe(name, tuple(conventions), make, seconds=2.0)


def make_secret_problem(convention: Convention, secret: str) -> ProbeProblem:
    """Return a problem whose expected output is a secret."""
    reference = f"def {ENTRY}(*values):\n    return {secret!r}\n"
    if convention is Convention.STDIN:
        return make_stdin_problem("reveal", {"1\n": f"{secret}\n"}, f"print({secret!r})\n")
    if convention is Convention.ASSERTS:
        return make_assert_problem("reveal", [f"assert reveal(1) == {secret!r}"], reference)
    return make_call_problem("reveal", [([1], secret)], reference, convention)
