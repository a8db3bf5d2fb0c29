"""The rules by which the program is found in an answer, by their names."""

from collections.abc import Callable

from sandbox import Program
from train.evaluation.extraction import curate, evalplus, lcb, whole_text

_RULES: dict[str, Callable[[str, tuple[str, ...]], Program | None]] = {
    rule.NAME: rule.program for rule in (curate, lcb, evalplus, whole_text)
}
NAMES = tuple(_RULES)
DEFAULT = curate.NAME


def extract_program(rule: str, answer: str, languages: tuple[str, ...]) -> Program | None:
    """Return the program in an answer; None if there is none.

    rule       the name of the rule
    languages  the languages that the answer may be written in; only our own rule knows others than Python
    """
    return _RULES[rule](answer, languages)


def rule_identity(rule: str) -> list[list[str]]:
    """Return JSON values by which verdicts under this rule are told apart; nothing for the usual rule."""
    return [] if rule == DEFAULT else [["extraction", rule]]
