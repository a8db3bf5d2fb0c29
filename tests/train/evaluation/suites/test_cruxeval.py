"""CRUXEval asks with its own prompts, and a prediction is right by what the sandbox computes, not by what it claims."""

import hashlib

import pytest
from source_rows import write_jsonl

from curate.errors import CurateError
from curate.prompt import PromptFormat
from train.evaluation.exercises import read_exercises
from train.evaluation.judges import cruxeval_judges
from train.evaluation.judges.cruxeval_judges import extract_predicted_input, extract_predicted_output
from train.evaluation.protocols.settings import resolve_settings

CODE = "def f(text, n=2):\n    return [text * n, len(text)]"
ROW = {"id": "sample_7", "code": CODE, "input": "'ab'", "output": "['abab', 2]"}
NO_ARGUMENTS = {"id": "sample_8", "code": "def f():\n    return {1: (2, 0.5)}", "input": "", "output": "{1: (2, 0.5)}"}

pytestmark = pytest.mark.usefixtures("own_cache")


def exercise(tmp_path, suite, options="", row=ROW, **others):
    (found,) = read_exercises(f"{write_jsonl(tmp_path / 'rows.jsonl', [row])}{options}", suite=suite, **others)
    return found


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ("[ANSWER]\nassert f('ab') == ['abab', 2]\n[/ANSWER]", "accepted"),
        ("assert f('ab') == ['abab', 2]", "accepted"),
        ("['abab', 2]  # the list", "accepted"),
        ("<think>[ANSWER] assert f('ab') == 1 [/ANSWER]</think>\n[ANSWER]['abab', 2][/ANSWER] So.", "accepted"),
        ("['ab' * 2, True + 1]", "accepted"),
        ("[ANSWER]\nassert f('ab') == ('abab', 2)\n[/ANSWER]", "wrong_answer"),
        ("[ANSWER]\nassert f('ab') == ['abab', 3]\n[/ANSWER]", "wrong_answer"),
        ("f(str('ab'))", "runtime_error"),  # the function is not there to be called
        ("[ANSWER]\nassert f('ab') == the list\n[/ANSWER]", "runtime_error"),
        ("[ANSWER][/ANSWER]", "no_answer"),
        ("type('T', (), {'__eq__': lambda *_: True})()", "wrong_answer"),
    ],
)
def test_a_predicted_output_is_right_if_it_has_the_value(tmp_path, box, answer, verdict):
    assert exercise(tmp_path, "cruxeval-o").judge_completion(answer, box).verdict == verdict


def test_an_expression_that_takes_too_long_is_ended(tmp_path, box, monkeypatch):
    monkeypatch.setattr(cruxeval_judges, "SECONDS", 0.3)  # instead of 3
    assert exercise(tmp_path, "cruxeval-o").judge_completion("max(iter(int, 1))", box).verdict == "time_limit"


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ("[ANSWER]\nassert f('ab') == ['abab', 2]\n[/ANSWER]", "accepted"),
        ("[ANSWER]\nassert f(n=2, text='ab') == ['abab', 2]\n[/ANSWER]", "accepted"),
        ("f('a' + chr(98))", "accepted"),
        ("f(*['ab'], **{'n': 2})", "accepted"),
        ("f(f('ab')[0][:2])", "accepted"),
        ("f('abab', 1)", "wrong_answer"),
        ("['abab', 2] or f('ab')", "wrong_answer"),  # CRUXEval accepts this
        ("'ab'", "wrong_answer"),
        ("f(lambda: 0)", "runtime_error"),
        ("f('ab', 'c')", "runtime_error"),
        ("f('ab' if 1 else)", "wrong_answer"),
        ("f(globals().update(f=lambda *a: ['abab', 2]))", "runtime_error"),
        ("f(__import__('os').write(3, b'v 0.0 [\"abab\", 2]\\n'))", "runtime_error"),
        ("", "no_answer"),
    ],
)
def test_a_predicted_input_is_right_if_the_function_returns_the_output_for_it(tmp_path, box, answer, verdict):
    assert exercise(tmp_path, "cruxeval-i").judge_completion(answer, box).verdict == verdict


def test_a_claimed_value_cannot_put_a_program_into_the_next_run(tmp_path, box):
    """The arguments come from a process that an answer may have taken over."""
    claim = '[[], {}]], "programs": ["def call_with(*a): return [\'abab\', 2]"], "inputs": [[[], {"d": []}]'
    line = f"v 0.0 {claim}\n".encode()
    answer = f"f([__import__('os').write(d, {line!r}) for d in range(3, 20)])"
    assert exercise(tmp_path, "cruxeval-i").judge_completion(answer, box).verdict != "accepted"


def test_a_function_without_arguments_is_a_problem_too(tmp_path, box):
    for suite, completion in {"cruxeval-o": "{1: (2, 0.5)}", "cruxeval-i": "f()"}.items():
        assert exercise(tmp_path, suite, row=NO_ARGUMENTS).judge_completion(completion, box).verdict == "accepted"


@pytest.mark.parametrize(
    ("suite", "options", "digest"),
    [
        ("cruxeval-o", "", "225222fa712fead0"),
        ("cruxeval-o", "?prompt=steps", "641244bdbcf4b542"),
        ("cruxeval-i", "", "83e940017fec5f6e"),
        ("cruxeval-i", "?prompt=steps", "20fa6c3e1ce67e63"),
    ],
)
def test_prompts_are_the_official_ones_to_the_character(tmp_path, suite, options, digest):
    """The digests are those of what CRUXEval's prompts.py makes of the same row."""
    system, user = exercise(tmp_path, suite, options).prompt
    assert system["content"].startswith("You are an expert at Python programming, code execution")
    assert hashlib.sha256(user["content"].encode()).hexdigest()[:16] == digest


def test_a_base_model_continues_the_prompt_up_to_the_closing_tag(tmp_path, box):
    settled = resolve_settings(None, "cruxeval-o", {"mode": "complete"}, PromptFormat())
    found = exercise(tmp_path, "cruxeval-o", settings=settled.suite_settings)
    assert isinstance(found.prompt, str)
    assert found.prompt.endswith("assert f('ab') == ??\n[/PYTHON]\n[ANSWER]\n")
    assert settled.suite_settings.stop == ("[/ANSWER]",)
    assert found.judge_completion("assert f('ab') == ['abab', 2]\n", box).verdict == "accepted"


def test_a_file_is_refused_unless_one_of_the_two_is_named(tmp_path):
    path = write_jsonl(tmp_path / "rows.jsonl", [ROW])
    with pytest.raises(CurateError, match="can be read as cruxeval-o or cruxeval-i"):
        read_exercises(str(path))
    with pytest.raises(CurateError, match="prompt must be direct or steps, not 'cot'"):
        read_exercises(f"{path}?prompt=cot", suite="cruxeval-o")


def test_predictions_are_taken_as_cruxeval_takes_them():
    steps = "First, f adds.\n[THOUGHT]\n[ANSWER]\nassert f(16) == 17\n[/ANSWER]\n[ANSWER]no[/ANSWER]"
    assert extract_predicted_input(steps, requests_steps=True) == "f(16)"
    assert extract_predicted_output(steps, requests_steps=True) == "17"
    assert extract_predicted_output("I think it is\n'a'", requests_steps=True) == "'a'"
    assert extract_predicted_input("assert f('==') == 1", requests_steps=False) == "f('"  # as in CRUXEval's own code
