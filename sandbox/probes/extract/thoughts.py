"""Has a correct program only where no submission belongs: in the thinking, a string, or a block of another kind."""

from collections.abc import Callable

from sandbox.probes.probe import ALL_CONVENTIONS, Group, JudgeProbe, ProbeClass, ProbeProblem, Submissions


def _forms(name: str, form: Callable[[str, str], str], leniency: str = "") -> JudgeProbe:
    def make(problem: ProbeProblem) -> Submissions:
        return Submissions(problem, (form(problem.right_program().rstrip(), problem.wrong_program().rstrip()),))

    return JudgeProbe(name, ALL_CONVENTIONS, make, leniency=leniency)


def _block(program: str, label: str = "python") -> str:
    return f"```{label}\n{program}\n```\n"


_LAST_BLOCK = "LiveCodeBench and rLLM extract the last block of the whole completion"

CLASS = ProbeClass(
    Group.EXTRACT,
    "thoughts",
    why="The judge searches the whole completion for code, including the thinking.",
    remedy="Remove the thinking first, and extract the program only from the rest.",
    source="ours",
    probes=(
        _forms("then-a-wrong-answer", lambda right, wrong: f"<think>\n{_block(right)}</think>\n{_block(wrong)}"),
        _forms("then-no-answer", lambda right, _: f"<think>\n{_block(right)}</think>\nI give up.\n", _LAST_BLOCK),
        _forms("never-closed", lambda right, _: f"<think>\nPerhaps this:\n{_block(right)}", _LAST_BLOCK),
        _forms(
            "after-a-wrong-answer",
            lambda right, wrong: f"{_block(wrong)}\n<think>\nPerhaps this:\n{_block(right)}</think>\n",
            _LAST_BLOCK,
        ),
        _forms(
            "block-in-a-string",
            lambda right, wrong: _block(f'NOTES = """\n{_block(right)}"""\n{wrong}'),
            "many extractors treat any fence with a language as the start of a block, even inside a string",
        ),
        _forms("output-block-first", lambda right, wrong: f"{_block(wrong)}\nIts output:\n{_block(right, 'text')}",
               "a judge that extracts the last block of any label extracts this one"),
        _forms("unclosed-block", lambda right, _: f"```python\n{right}\n", "a truncated completion may hold all of it"),
        _forms("without-a-fence", lambda right, _: f"{right}\n", "some judges run the whole completion as the program"),
    ),
)  # fmt: skip
