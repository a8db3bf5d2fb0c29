import pytest

from curate.reading.dialects import assertions, detection, json_tests
from curate.reading.values import ParseError
from sandbox import Case

STARTER = "class Solution:\n    def f(self, nums: List[int], k: int) -> int:\n        "
CHECK = "def check(candidate):\n    assert candidate(nums = [1, 2], k = 3) == (True, None)\n\n\ncheck(Solution().f)"


def test_assertions_become_calls_and_are_not_executed():
    suite = assertions.read_examples(CHECK)
    assert (suite.entry_point, suite.checker) == ("f", "exact")
    assert suite.cases == (Case("[[1, 2], 3]", "[true, null]"),)


def test_named_arguments_are_put_in_the_order_of_the_starter_code():
    swapped = CHECK.replace("nums = [1, 2], k = 3", "k = 3, nums = [1, 2]")
    assert assertions.read_examples(swapped, starter_code=STARTER).cases == (Case("[[1, 2], 3]", "[true, null]"),)


def test_the_name_may_be_given_separately_and_arguments_need_no_names():
    code = '''def check(candidate):
    """HumanEval"""
    assert True, "This prints if this assert fails"
    assert candidate("a", -1) == 1.5, "first"
'''
    suite = assertions.read_examples(code, "g")
    assert (suite.entry_point, suite.cases) == ("g", (Case('["a", -1]', "1.5"),))


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("", id="empty"),
        pytest.param(None, id="null"),
        pytest.param("def check(:", id="torn"),
        pytest.param("def check(c):\n    assert c(1) == 1", id="no name"),
        pytest.param("assert f(1) == 1", id="no check"),
        pytest.param(CHECK.replace("==", "<"), id="not an equation"),
        pytest.param(CHECK.replace("(True, None)", "g()"), id="an expected value that is computed"),
        pytest.param(CHECK.replace("3)", "open('/etc/passwd'))"), id="an argument that is computed"),
        pytest.param(CHECK.replace("    assert", "    for x in y: assert"), id="a loop"),
        pytest.param(CHECK.replace("k = 3", "**{}"), id="arguments unpacked"),
        pytest.param(CHECK.replace("(True, None)", "{1: 2}"), id="a key that JSON would change"),
        pytest.param("(" * 100_000, id="too deep"),
    ],
)
def test_checks_that_contain_more_than_examples_are_refused(code):
    with pytest.raises(ParseError):
        assertions.read_examples(code)


def test_assertions_about_another_function_are_noticed():
    with pytest.raises(ParseError, match="another problem: it passes parents"):
        assertions.read_examples("def check(candidate):\n    assert candidate(parents = [1]) == 1", "f", STARTER)


def test_tests_of_several_kinds_are_refused():
    stdin = {"input": "1", "output": "1", "testtype": "stdin"}
    with pytest.raises(ParseError, match="several kinds"):
        json_tests.parse_json_tests([stdin, {"input": "1", "output": "1", "testtype": "functional"}])
    with pytest.raises(ParseError, match="asks for f"):
        json_tests.parse_json_tests([stdin], "f")


def test_both_sides_of_a_call_may_be_json_text():
    suite = json_tests.parse_json_tests(
        [{"type": "function_call", "fn_name": "f", "input": "[[1], 2]", "output": '"a"'}]
    )
    assert suite.cases == (Case("[[1], 2]", '"a"'),)


def test_a_problem_that_names_a_function_has_calls_without_saying_so():
    assert json_tests.parse_json_tests([{"input": [1, 2], "output": 3}], "f").cases == (Case("[1, 2]", "3"),)
    assert json_tests.parse_json_tests([{"input": "1\n2", "output": "3"}], "f").cases == (Case("[1, 2]", "3"),)


@pytest.mark.parametrize(
    "encoded",
    [
        pytest.param([{"input": "1", "output": "2"}], id="cases"),
        pytest.param('[{"input": "1", "output": "2"}]', id="json"),
        pytest.param("[{'input': '1', 'output': '2'}]", id="python"),
        pytest.param({"inputs": ["1"], "outputs": ["2"]}, id="inputs and outputs"),
        pytest.param('{"inputs": ["1"], "outputs": ["2"], "fn_name": null}', id="the same as json"),
        pytest.param({"test_cases": [{"type": "stdin_stdout", "input": "1", "output": "2"}]}, id="verification_info"),
    ],
)
def test_the_dialect_of_tests_is_recognised_by_their_shape(encoded):
    assert detection.read(encoded).cases == (Case("1", "2"),)


def test_code_is_distinguished_from_values():
    assert detection.read(CHECK) == detection.read({"functional": CHECK}) == assertions.read_examples(CHECK)
    assert detection.read({"inputs": [[1]], "outputs": [2]}, "f").entry_point == "f"


TWO_SUM = "nums = [1, 2], k = 3"


@pytest.mark.parametrize(
    "encoded",
    [
        pytest.param([{"input": TWO_SUM, "output": "[0, true]"}], id="cases"),
        pytest.param(
            [{"input": "k = 3, nums = [1,\n2]", "output": "[0, True]"}], id="another order, and Python's words"
        ),
        pytest.param([{"input": TWO_SUM, "output": [0, True]}], id="an output that is no text"),
        pytest.param([{"type": "function_call", "fn_name": "f", "input": TWO_SUM, "output": "[0, true]"}], id="a type"),
        pytest.param({"inputs": [TWO_SUM], "outputs": ["[0, true]"]}, id="inputs and outputs"),
    ],
)
def test_arguments_that_have_names_are_put_in_the_order_of_the_parameters(encoded):
    suite = detection.read(encoded, "Solution().f", STARTER)
    assert (suite.entry_point, suite.checker) == ("f", "exact")
    assert suite.cases == (Case("[[1, 2], 3]", "[0, true]"),)


def test_a_function_may_be_named_by_the_starter_code_if_its_parameters_are_those_of_the_tests():
    tests = [{"input": 'a = null, b = "x, y = 1"', "output": '"z"'}]
    starter_code = "def g(b, a):"
    suite = detection.read(tests, starter_code=starter_code)
    assert (suite.entry_point, suite.cases) == ("g", (Case('["x, y = 1", null]', '"z"'),))
    assert detection.read(tests, starter_code="def g(b, c):").entry_point is None  # text for standard input
    assert detection.read(tests).cases == (Case('a = null, b = "x, y = 1"', '"z"'),)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        pytest.param("nums = [1]", "another problem: it passes nums", id="too few"),
        pytest.param("nums = [1], k = 2, k = 3", "another problem: it passes nums, k, k", id="one twice"),
        pytest.param("nums = [1], 2", "not a list of named values", id="one without a name"),
        pytest.param("nums = [1], k = f()", "not a list of named values", id="computed"),
        pytest.param("nums = [1], k = 2)(k = 3", "not a list of named values", id="two calls"),
        pytest.param("nums = [1], k = 2), f(k = 3", "not a list of named values", id="two values"),
        pytest.param("nums = [1], **{}", "it passes nums, None", id="unpacked"),
        pytest.param("nums = " + "[" * 100_000, "not a list of named values", id="too deep"),
        pytest.param("nums = 1, k = 2", "int for the parameter nums", id="another type"),
    ],
)
def test_named_arguments_that_do_not_fit_are_refused(written, message):
    with pytest.raises(ParseError, match=message):
        detection.read([{"input": written, "output": "1"}], "f", STARTER)


def test_tests_may_be_keyed_by_the_names_of_the_streams():
    assert detection.read([{"stdin": "1", "stdout": ["2", "3"]}]).cases == (Case("1", "2\n3"),)
    with pytest.raises(ParseError, match="asks for f"):
        detection.read([{"stdin": "1", "stdout": "2"}], "f")
    with pytest.raises(ParseError, match="no input and output"):
        detection.read([{"stdin": "1", "output": "2"}])


@pytest.mark.parametrize("encoded", [None, "", 7, "{", [7], {}, {"inputs": 1, "outputs": 2}, "print(1)"])
def test_values_that_are_not_tests_are_refused(encoded):
    with pytest.raises(ParseError):
        detection.read(encoded)


def test_a_method_of_a_class_is_called_by_its_own_name():
    assert json_tests.read_columns({"inputs": [[1]], "outputs": [1], "fn_name": "Solution().f"}).entry_point == "f"
