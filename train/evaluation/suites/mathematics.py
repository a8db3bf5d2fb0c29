"""What the suites of mathematics share: how they ask, and how their answers are judged."""

from importlib.util import find_spec

from curate.errors import CurateError
from curate.prompt import Chat, PromptFormat
from sandbox import Suite
from sandbox.extras import install_command

_FORM = "Let's think step by step and output the final answer within \\boxed{}."  # of DeepScaleR and DeepCoder


def check_installed() -> None:
    """Raise CurateError if math-verify, which compares the answers, is missing."""
    if find_spec("math_verify") is None:
        raise CurateError(f"answers of mathematics need math-verify; type: {install_command('math')}")


def chat(prompt: PromptFormat, problem: str) -> Chat:
    """Return the chat that asks a question of mathematics. A template of the user's own is used as it is."""
    if prompt.template:
        return prompt.chat(problem, "", Suite([]))
    system = [{"role": "system", "content": prompt.system}] if prompt.system else []
    return [*system, {"role": "user", "content": f"{problem.strip()} {_FORM}"}]
