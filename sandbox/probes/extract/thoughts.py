"""Has a right program only where no answer is: in thoughts, in the prompt's form, or in another answer's form."""

from collections.abc import Callable

from sandbox.probes.probe import EVERY, Group, JudgeProbe, ProbeClass, ProbeProblem, Trial


def _forms(name: str, form: Callable[[str, str], str], lenient: str = "") -> JudgeProbe:
    def make(problem: ProbeProblem) -> Trial:
        return Trial(problem, (form(problem.right_program().rstrip(), problem.wrong_program().rstrip()),))

    return JudgeProbe(name, EVERY, make, lenient=lenient)


def _block(program: str, label: str = "python") -> str:
    return f"```{label}\n{program}\n```\n"


_LAST = "LiveCodeBench and rLLM take the last block of the completion, wherever it stands"

CLASS = ProbeClass(
    Group.EXTRACT,
    "thoughts",
    why="The judge looks for code in the whole completion, wherever it stands.",
    remedy="Cut off thoughts first, and take the answer only from what follows.",
    source="ours",
    probes=(
        _forms("then-a-wrong-answer", lambda right, wrong: f"<think>\n{_block(right)}</think>\n{_block(wrong)}"),
        _forms("then-no-answer", lambda right, _: f"<think>\n{_block(right)}</think>\nI give up.\n", _LAST),
        _forms("never-closed", lambda right, _: f"<think>\nPerhaps this:\n{_block(right)}", _LAST),
        _forms(
            "after-a-wrong-answer",
            lambda right, wrong: f"{_block(wrong)}\n<think>\nPerhaps this:\n{_block(right)}</think>\n",
            _LAST,
        ),
        _forms(
            "block-in-a-string",
            lambda right, wrong: _block(f'NOTES = """\n{_block(right)}"""\n{wrong}'),
            "a fence that names its language opens a block for many readers, wherever it stands",
        ),
        _forms("output-block-first", lambda right, wrong: f"{_block(wrong)}\nIts output:\n{_block(right, 'text')}",
               "a judge that takes the last block, whatever its label, takes this one"),
        _forms("unclosed-block", lambda right, _: f"```python\n{right}\n", "an answer that was cut off may be whole"),
        _forms("without-a-fence", lambda right, _: f"{right}\n", "some judges take the whole text for the program"),
    ),
)  # fmt: skip
