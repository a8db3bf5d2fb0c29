"""The prompts of the official evaluations, to the character."""

import json

import pytest
from evalplus_rows import PROMPT, humaneval_plus_row, mbpp_plus_hub_row, mbpp_plus_row
from math_answers import needs_math_verify
from source_rows import DATA, humaneval_row, livecodebench_row, mbpp_row, write_jsonl

from curate.prompt import PromptFormat
from train.evaluation.exercises import read_exercises
from train.evaluation.protocols.settings import resolve_settings

STARTER = "class Solution:\n    def double(self, n: int) -> int:\n        "
STDIN = livecodebench_row("a", "Add them. \n")
CALL = livecodebench_row(
    "b", "Double it.", [("1", "2"), ("2", "4"), ("3", "6")], starter_code=STARTER, func_name="double"
)
EXPERT = (
    "You are an expert Python programmer. You will be given a question (problem specification) and will generate a "
    "correct Python program that matches the specification and passes all tests."
)
FROM_STDIN = (
    "Read the inputs from stdin solve the problem and write the answer to stdout (do not directly test on the sample "
    "inputs). Enclose your code within delimiters as follows. Ensure that when the python program runs, it reads the "
    "inputs, runs the algorithm and writes output to STDOUT.\n```python\n# YOUR CODE HERE\n```\n\n"
)
FROM_STARTER = (
    "You will use the following starter code to write the solution to the problem and enclose your code within "
    "delimiters.\n```python\nclass Solution:\n    def double(self, n: int) -> int:\n        \n```\n\n"
)
BACKTICKS = "### Answer: (use the provided format with backticks)\n\n"
REASONER = (
    "You will be given a question (problem specification) and will generate a correct Python program that matches the "
    "specification and passes all tests.\n\n"
)
FUNCTION = PROMPT + '    """Add one to each number."""'
PREFILL = (
    "Below is a Python script with a self-contained function that solves the problem and passes corresponding tests:\n"
    "```python\n"
)
SELF_CONTAINED = (
    "Please provide a self-contained Python script that solves the following problem in a markdown code block:\n"
)
IN_BOTH = '"""\nWrite a function that finds what is in both.\nassert set(similar_elements((1, 2),(2, 3))) == {2}\n"""'
LIGHTEVAL = (
    "Solve the following math problem efficiently and clearly.  The last line of your response should be of the "
    "following format: 'Therefore, the final answer is: $\\boxed{ANSWER}$. I hope it is correct' (without quotes) "
    "where ANSWER is just the final number or expression that solves the problem. Think step by step before answering."
)
AIME = {"problem": "What is 16 + 17?", "answer": "033"}


def user(text):
    return [{"role": "user", "content": text}]


def asked(tmp_path, row, suite, protocol=None, prompt=PromptFormat(), **wishes):  # noqa: B008
    settled = resolve_settings(protocol, suite, {"window": "", **wishes}, prompt)
    path = write_jsonl(tmp_path / "rows.jsonl", [row])
    (exercise,) = read_exercises(str(path), suite=suite, prompt=prompt, settings=settled.suite_settings)
    return exercise


@pytest.mark.parametrize(
    ("row", "protocol", "messages"),
    [
        pytest.param(
            STDIN,
            "lcb",
            [
                {"role": "system", "content": EXPERT},
                *user(f"### Question:\nAdd them. \n\n\n### Format: {FROM_STDIN}{BACKTICKS}"),
            ],
            id="LiveCodeBench, standard input",
        ),
        pytest.param(
            CALL,
            "lcb",
            [
                {"role": "system", "content": EXPERT},
                *user(f"### Question:\nDouble it.\n\n### Format: {FROM_STARTER}{BACKTICKS}"),
            ],
            id="LiveCodeBench, starter code",
        ),
        pytest.param(
            STDIN,
            "deepcoder",
            user(f"{EXPERT}\n\nAdd them. \n### Format: {FROM_STDIN}{BACKTICKS}"),
            id="DeepCoder, standard input",
        ),
        pytest.param(
            CALL,
            "deepcoder",
            user(f"{EXPERT}\n\nDouble it.### Format: {FROM_STARTER}{BACKTICKS}"),
            id="DeepCoder, starter code",
        ),
        pytest.param(
            STDIN,
            "lighteval-0.10",
            user(f"{REASONER}Question: Add them. \n\n\n{FROM_STDIN}"),
            id="DeepSeek-R1, standard input",
        ),
        pytest.param(
            CALL,
            "lighteval-0.13",
            user(f"{REASONER}Question: Double it.\n\n{FROM_STARTER}"),
            id="DeepSeek-R1, starter code",
        ),
        pytest.param(
            STDIN,
            "evalchemy",
            user(
                "Generate an executable Python function generated from the given prompt. The function should take "
                "stdin as input and print the output. Simply call the function after the definition.Add them. \n"
            ),
            id="evalchemy, standard input",
        ),
        pytest.param(
            CALL,
            "evalchemy",
            user(
                "Generate an executable Python function generated from the given prompt. Return the function body "
                "without invoking it at the final solution.Double it."
            ),
            id="evalchemy, a function",
        ),
    ],
)
def test_problems_of_livecodebench(tmp_path, row, protocol, messages):
    exercise = asked(tmp_path, row, "lcb", protocol)
    assert exercise.prompt == messages
    assert (exercise.answer_prefix, exercise.answer_suffix) == ("", "")


@pytest.mark.parametrize(
    ("suite", "row", "stated"),
    [
        ("humaneval+", humaneval_plus_row(), FUNCTION),
        ("mbpp+", mbpp_plus_row(), IN_BOTH),
        ("mbpp+", mbpp_plus_hub_row(), IN_BOTH),
        ("humaneval", humaneval_row(3), humaneval_row(3)["prompt"].strip()),
        ("mbpp", mbpp_row(11), '"""\n' + mbpp_row(11)["text"] + "\n" + mbpp_row(11)["test_list"][0] + '\n"""'),
    ],
)
def test_problems_of_evalplus(tmp_path, suite, row, stated):
    chat = asked(tmp_path, row, suite, "evalplus")
    assert chat.prompt == [
        *user(f"{SELF_CONTAINED}```\n{stated}\n```\n"),
        {"role": "assistant", "content": PREFILL},
    ]
    assert chat.assemble_text("x = 1") == "x = 1"  # EvalPlus never sees what the model was given
    other = asked(tmp_path, row, suite, "evalplus", extraction="curate")
    assert other.assemble_text("x = 1") == f"{PREFILL}x = 1\n```\n"
    thinking = asked(tmp_path, row, suite, "evalplus", form="evalplus-thinking")
    assert thinking.prompt == user(f"{SELF_CONTAINED}```python\n{stated}\n```")
    assert thinking.assemble_text("x = 1") == "x = 1"
    completed = asked(tmp_path, row, suite, "evalplus", mode="complete")
    assert completed.prompt == stated + "\n"
    assert completed.assemble_text("    return 1") == stated + "\n    return 1"
    assert completed.judge.extraction == "evalplus"


@needs_math_verify
@pytest.mark.parametrize(
    ("protocol", "suite", "text"),
    [
        (
            "deepcoder",
            "aime24",
            "What is 16 + 17? Let's think step by step and output the final answer within \\boxed{}.",
        ),
        ("lighteval-0.10", "aime24", f"{LIGHTEVAL}\n\nWhat is 16 + 17?"),
        ("lighteval-0.10", "math500", f"{LIGHTEVAL}\n\nWhat is 16 + 17?"),
        ("lighteval-0.13", "aime24", f"\n{LIGHTEVAL}\n\nWhat is 16 + 17?\n"),
        (
            "lighteval-0.13",
            "math500",
            "Solve the following problem. The final line of your response MUST be of the following format:\n"
            '"ANSWER: $ANSWER" (without quotes) where $ANSWER is the final answer. Think step by step before answering.'
            "\n\nWhat is 16 + 17?",
        ),
        ("evalchemy", "aime24", "Problem: What is 16 + 17?\nMark your solution with \\boxed\nAnswer:"),
    ],
)
def test_questions_of_mathematics(tmp_path, protocol, suite, text):
    assert asked(tmp_path, AIME, suite, protocol).prompt == user(text)


@needs_math_verify
@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ("Let me see.\nANSWER: $33$", "accepted"),
        ("ANSWER: 32\n**ANSWER: 33**\nI hope so.", "accepted"),
        ("<think>\nANSWER: 32\n</think>\nAnswer: \\frac{66}{2}\r\n", "accepted"),
        ("\\boxed{33}", "accepted"),
        ("\\boxed{33}\nANSWER: 32", "wrong_answer"),
        ("<think>ANSWER: 33", "no_answer"),
        ("It is 33.\nANSWER: ", "no_answer"),
    ],
)
def test_a_line_can_have_the_final_answer_if_the_form_asks_for_it(tmp_path, answer, verdict):
    line = asked(tmp_path, AIME, "math500", "lighteval-0.13")
    assert line.judge.judge(answer, None).verdict == verdict
    boxed = asked(tmp_path, AIME, "math500", "lighteval-0.10")
    assert line.judge.identity != boxed.judge.identity
    assert boxed.judge.judge("ANSWER: 33", None).verdict == "no_answer"


@pytest.mark.skipif(not (DATA / "golden").is_dir(), reason="the real data are not beside this checkout")
def test_the_format_of_deepcoder_is_the_one_in_its_own_rows(tmp_path):
    import pyarrow.parquet as pq

    rows = pq.read_table(DATA / "golden" / "verl_livecodebench_50.parquet").column("prompt").to_pylist()
    from_stdin = [row[0]["content"] for row in rows if "starter code" not in row[0]["content"]]
    assert len(from_stdin) == 9
    (ours,) = asked(tmp_path, STDIN, "lcb", "deepcoder").prompt
    before, _, after = ours["content"].partition("\n\nAdd them. \n")
    for text in from_stdin:  # an earlier version of its scripts, which put one line break before the question
        assert text.startswith(before + "\n")
        assert text.endswith(after)


def test_without_a_protocol_prompts_are_as_they_were(tmp_path):
    usual = asked(tmp_path, STDIN, "lcb")
    (exercise,) = read_exercises(str(tmp_path / "rows.jsonl"))
    assert usual == exercise
    assert usual.prompt == PromptFormat().build_chat("Add them.", "", usual.judge.suite)


def test_a_system_prompt_takes_the_place_of_the_official_one(tmp_path):
    lcb = asked(tmp_path, STDIN, "lcb", "lcb", PromptFormat("Be brief."))
    assert [message["role"] for message in lcb.prompt] == ["system", "user"]
    assert lcb.prompt[0]["content"] == "Be brief."
    deepcoder = asked(tmp_path, STDIN, "lcb", "deepcoder", PromptFormat("Be brief."))
    assert [message["role"] for message in deepcoder.prompt] == ["system", "user"]


def test_a_prefill_is_part_of_what_is_judged(tmp_path):
    plain = asked(tmp_path, STDIN, "lcb", prefill="<think>\n")
    assert plain.prompt[-1] == {"role": "assistant", "content": "<think>\n"}
    assert plain.assemble_text("Done.</think>") == "<think>\nDone.</think>"
    code = asked(tmp_path, STDIN, "lcb", prefill="```python\n", stop=("\n```",))
    assert code.judge.extract_program(code.assemble_text("print(1)")).source.strip() == "print(1)"


def test_a_template_of_the_users_own_is_continued_as_plain_text(tmp_path):
    exercise = asked(tmp_path, STDIN, "lcb", "lcb", PromptFormat(template="# {{ statement }}\n"), mode="complete")
    assert exercise.prompt == "# Add them.\n"
    assert json.loads(json.dumps(exercise.prompt)) == exercise.prompt
