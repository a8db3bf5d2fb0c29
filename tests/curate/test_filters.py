from dataclasses import replace

import pytest

from curate.ingestion import few_tests, image, interactive, no_reference, no_statement, wrong_language
from curate.problem import Problem
from sandbox import Case, Program, Suite

WHOLE = Problem(
    "taco/0",
    "taco",
    "Read two integers and print their sum.",
    Suite([Case(str(n), str(n)) for n in range(5)]),
    solutions=(Program("print(1)"),),
    licence="",
)


@pytest.mark.parametrize("question", [few_tests, image, interactive, no_reference, no_statement, wrong_language])
def test_a_whole_problem_is_kept(question):
    assert question(WHOLE) is None


def test_a_problem_with_few_tests_is_dropped():
    assert few_tests(replace(WHOLE, tests=Suite(WHOLE.tests.cases[:4]))) == "few_tests"
    assert few_tests(WHOLE, min_tests=6) == "few_tests"


@pytest.mark.parametrize("statement", ["", " \n\n ", "# ***", "See below."])
def test_a_problem_without_a_statement_is_dropped(statement):
    assert no_statement(replace(WHOLE, statement=statement)) == "no_statement"


@pytest.mark.parametrize(
    "statement", ["a <image> b", "[Image]", "![](a.png)", r"\includegraphics[width=3cm]{a}", "<img src='a'>"]
)
def test_a_statement_with_image_placeholders_is_dropped(statement):
    assert image(replace(WHOLE, statement=statement)) == "image"


def test_images_counted_by_the_source_count_and_the_mere_word_does_not():
    assert image(replace(WHOLE, n_pictures=1)) == "image"
    assert image(replace(WHOLE, statement="An image has n pixels; mirror it.")) is None


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        pytest.param("This is an interactive problem.", "interactive", id="says so"),
        pytest.param("Guess.\n\nInteraction\n\nPrint a query.", "interactive", id="section"),
        pytest.param("Guess.\n-----Interaction-----\nPrint.", "interactive", id="dashed section"),
        pytest.param("\\section*{Interaction}\nPrint.", "interactive", id="tex section"),
        pytest.param("The interaction of two atoms costs energy.", None, id="just a word"),
        pytest.param("An interactive game is played by Alice and Bob.", None, id="just an adjective"),
    ],
)
def test_interactive_problems_are_recognised(statement, reason):
    assert interactive(replace(WHOLE, statement=statement)) == reason


def test_a_missing_reference_is_a_policy_only_if_the_source_publishes_none():
    unpublished = replace(WHOLE, solutions=None)
    assert no_reference(unpublished) is None
    assert no_reference(unpublished, keep_unpublished=False) == "no_reference"
    assert no_reference(replace(WHOLE, solutions=())) == "no_reference"
    assert no_reference(replace(WHOLE, solutions=(Program(" "),))) == "no_reference"


def test_a_problem_without_a_solution_in_a_chosen_language_is_dropped():
    cpp = Program("int main() {}", "cpp")
    assert wrong_language(replace(WHOLE, solutions=(cpp,))) == "wrong_language"
    assert wrong_language(replace(WHOLE, solutions=(cpp,)), languages=("python", "cpp")) is None
    assert wrong_language(replace(WHOLE, solutions=(cpp, *WHOLE.solutions))) is None
    assert wrong_language(replace(WHOLE, solutions=None)) is None
