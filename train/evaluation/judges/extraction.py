r"""The rules that extract the program from a completion, by their command-line names.

curate              ours, as in training: see rewards/extract/program.py
lcb                 LiveCodeBench's (lcb_runner/utils/extraction_utils.py) and lighteval's: the text between the last
                    two lines that contain three backticks
rllm                rLLM's (rllm-org/rllm: rllm/rewards/code_reward.py), for DeepCoder: the last block of backticks in
                    any language, which ends at the next three backticks, even within a line
evalchemy           evalchemy's for LiveCodeBench, CodeElo and Codeforces (mlfoundations/evalchemy:
                    eval/chat_benchmarks/LiveCodeBenchv5/eval_instruct.py and livecodebench_utils.py): as rllm, but
                    labels are letters only, and the program ends at `</code>`
evalchemy-mbpp      evalchemy's for MBPP (eval/chat_benchmarks/MBPP/eval_instruct.py): the first Python block, or else
                    the whole completion
evalchemy-humaneval evalchemy's for HumanEval (eval/chat_benchmarks/HumanEval/utils/utils.py): takes the first
                    Python block from the function on, and prepends the prompt's text before the function; without a
                    block, joins prompt and completion
evalplus            EvalPlus's: see evalplus_extraction.py
evalplus-thinking   the same for the text after the model's thinking
whole               the whole text, for models that continue the text of a program

Only our own rule supports languages other than Python.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from rewards.extract import PYTHON_ONLY, extract_submission
from rewards.extract.code_blocks import parse_code_blocks
from rewards.extract.thinking import strip_thinking
from sandbox import Program
from train.evaluation.judges.evalplus_extraction import sanitize

DEFAULT_RULE, EVALPLUS, EVALPLUS_THINKING, WHOLE = "curate", "evalplus", "evalplus-thinking", "whole"
_FENCE = "```"
_RLLM_BLOCK = re.compile(r"```\w*\n(.*?)```", re.DOTALL)
_EVALCHEMY_BLOCK = re.compile(r"```[a-zA-Z]*\n(.*?)```", re.DOTALL)
_PYTHON_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL | re.IGNORECASE)
_INDENTATION = 4  # default indentation of a body, if the block does not contain the function


@dataclass(frozen=True, slots=True)
class ExpectedProgram:
    """The properties of the expected program, as inputs of the rules.

    entry_points  functions that tests call; empty: the program reads stdin
    prompt        beginning of the program in the prompt; empty: none
    """

    languages: tuple[str, ...] = PYTHON_ONLY
    entry_points: tuple[str, ...] = ()
    prompt: str = ""


def _extract_lcb(completion: str, expected: ExpectedProgram) -> str:
    lines = completion.split("\n")
    fences = [number for number, line in enumerate(lines) if _FENCE in line]
    return "" if len(fences) < 2 else "\n".join(lines[fences[-2] + 1 : fences[-1]])


def _extract_rllm(completion: str, expected: ExpectedProgram) -> str:
    return _find_last_block(_RLLM_BLOCK, completion).strip()


def _extract_evalchemy(completion: str, expected: ExpectedProgram) -> str:
    return _find_last_block(_EVALCHEMY_BLOCK, completion).partition("</code>")[0].replace("<code>", "")


def _find_last_block(block: re.Pattern[str], completion: str) -> str:
    return next(reversed(block.findall(completion)), "")


def _extract_evalchemy_mbpp(completion: str, expected: ExpectedProgram) -> str:
    block = _PYTHON_BLOCK.search(completion)
    return completion if block is None else block[1]


def _extract_evalchemy_humaneval(completion: str, expected: ExpectedProgram) -> str:
    block = _PYTHON_BLOCK.search(completion)
    lines = [line for line in expected.prompt.strip().split("\n") if line.strip()]
    begin = next((number for number in reversed(range(len(lines))) if lines[number].startswith("def ")), None)
    if block is None or begin is None:
        return f"{expected.prompt}\n{completion}"
    code = block[1]
    start = code.lower().find(lines[begin].partition("(")[0].strip().lower())
    indentation = _INDENTATION if start < 0 else start - len(code[:start].rstrip(" "))
    brace = code.rfind("\n" + " " * indentation + "}")  # evalchemy also removes a closing brace, as in C++
    body = code[max(start, 0) : brace if brace >= 0 else None]
    return "\n".join([*lines[:begin], body]) + "\n"


def _extract_evalplus(completion: str, expected: ExpectedProgram) -> str:
    return sanitize(completion, expected.entry_points)


def _extract_evalplus_thinking(completion: str, expected: ExpectedProgram) -> str:
    return sanitize(strip_thinking(completion, lambda rest: bool(parse_code_blocks(rest))) or "", expected.entry_points)


def _extract_whole(completion: str, expected: ExpectedProgram) -> str:
    return completion


_PYTHON_RULES: dict[str, Callable[[str, ExpectedProgram], str]] = {
    "lcb": _extract_lcb,
    "rllm": _extract_rllm,
    "evalchemy": _extract_evalchemy,
    "evalchemy-mbpp": _extract_evalchemy_mbpp,
    "evalchemy-humaneval": _extract_evalchemy_humaneval,
    EVALPLUS: _extract_evalplus,
    EVALPLUS_THINKING: _extract_evalplus_thinking,
    WHOLE: _extract_whole,
}
RULES = (DEFAULT_RULE, *_PYTHON_RULES)
_RULE_IDENTITIES = {EVALPLUS: "evalplus 0.3.1"}  # distinguishes the rule from an earlier rule with the same name


def extract_program(rule: str, completion: str, expected: ExpectedProgram) -> Program | None:
    """Extract the program from a completion; None if there is none.

    rule: one of RULES
    """
    if rule == DEFAULT_RULE:
        return extract_submission(completion, expected.languages)
    source = _PYTHON_RULES[rule](completion, expected)
    return Program(source) if source.strip() else None


def get_rule_identity(rule: str) -> str:
    """Return the name that identifies a rule in cache keys of verdicts."""
    return _RULE_IDENTITIES.get(rule, rule)
