import pytest

from curate.reading.prompt_templates import strip_prompt_template

STATEMENT = "Count the ways.\n\nInput\n\nThe input will be one line.\n\nOutput\n\nQuestion: how many?"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("", "", id="none"),
        pytest.param(
            "Solve the following coding problem using the programming language python:\n\n",
            "\n\nThe input will be stdin and you should print your solution to stdout\n\n\n"
            "Now solve the problem and return the code.",
            id="synthetic1",
        ),
        pytest.param("\nQUESTION:\n", "\nUse Standard Input format\nANSWER:\n", id="apps"),
        pytest.param("", "\nUse Call-Based format", id="taco"),
        pytest.param(
            "You will be given a question (problem specification) and will generate a correct Python program that "
            "matches the specification and passes all tests. You will NOT return anything except for the program."
            "\n\n### Question:\n",
            "\n\n### Format: You will use the following starter code to write the solution to the problem and enclose "
            "your code within delimiters.\n```python\nclass Solution:\n    def f(self):\n```\n\n"
            "### Answer: (use the provided format with backticks)\n\n",
            id="livecodebench",
        ),
        pytest.param(
            "You are an expert Python programmer. You will be given a question (problem specification) and will "
            "generate a correct Python program that matches the specification and passes all tests.\n\n",
            "\n\n### Format: Read the inputs from stdin solve the problem and write the answer to stdout.\n"
            "```python\n# YOUR CODE HERE\n```",
            id="leetcodedataset",
        ),
    ],
)
def test_the_template_of_a_source_is_removed_from_a_statement(before, after):
    assert strip_prompt_template(f"{before}{STATEMENT}{after}") == STATEMENT


@pytest.mark.parametrize(
    "text",
    [
        "An essay on prompts such as QUESTION: and ANSWER: and what they do.",
        "The input will be stdin and one number to stdout of another program.\nPrint it.",
        "",
    ],
)
def test_a_statement_that_mentions_such_words_stays_whole(text):
    assert strip_prompt_template(text) == text


def test_a_template_without_a_statement_leaves_nothing():
    assert strip_prompt_template("QUESTION:\n\nUse Standard Input format\nANSWER:\n") == ""
