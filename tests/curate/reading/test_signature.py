import pytest

from curate.reading.signature import find_argument_mismatch

STARTER = "class Solution:\n    def f(self, n: int, rows: List[List[int]], name: str = '') -> int:\n        "


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param([1, [[2]], "a"], id="all"),
        pytest.param([1, [[2]]], id="a default left out"),
        pytest.param([None, None], id="null fits anything"),
    ],
)
def test_arguments_that_fit_the_signature_are_accepted(arguments):
    assert find_argument_mismatch(STARTER, "f", arguments) is None


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["7"], id="too few"),
        pytest.param([1, [], "a", 2], id="too many"),
        pytest.param(["7", [[2]]], id="text for a number"),
        pytest.param([True, [[2]]], id="truth for a number"),
        pytest.param([1, 2], id="number for a list"),
    ],
)
def test_arguments_of_another_function_do_not_fit(arguments):
    assert find_argument_mismatch(STARTER, "f", arguments)


@pytest.mark.parametrize("starter", ["", "class Solution {", "def g(a):", "def f(*args):"])
def test_starter_code_without_a_signature_accepts_everything(starter):
    assert find_argument_mismatch(starter, "f", ["7"]) is None
