from curate.difficulty.prompt import chat


def test_the_prompt_for_stdin_and_stdout_asks_for_a_program():
    (message,) = chat("  Add two numbers.\n", "", None)
    assert message["role"] == "user"
    assert message["content"].startswith("Add two numbers.\n\nWrite a Python 3 program")
    assert "standard input" in message["content"]
    assert "```python block at the end" in message["content"]


def test_the_prompt_asks_to_complete_starter_code():
    starter = "class Solution:\n    def total(self, numbers: List[int]) -> int:\n        "
    (message,) = chat("Add them.", starter, "total")
    assert f"```python\n{starter}\n```" in message["content"]
    assert "`total`" in message["content"]
    assert "standard input" not in message["content"]


def test_the_prompt_names_a_function_without_starter_code():
    (message,) = chat("Add {them}.", "", "total")
    assert message["content"].startswith("Add {them}.\n\nWrite a Python 3 function `total`")
