import pytest

from curate.errors import CurateError
from curate.expressions.condition import parse
from curate.problem import Problem, to_row
from sandbox import Assertions, Case, Limits, Program, Suite

SUITE = Suite([Case("1\n", "2\n")] * 7, limits=Limits(wall_seconds=4))
ROW = to_row(
    Problem(
        id="taco/1",
        source="taco",
        statement="Find the shortest path in a graph.",
        tests=SUITE,
        solutions=None,
        licence="mit",
        verified=True,
        reference=Program("print(2)"),
        cpu_seconds=0.5,
        tags=("dp", "graphs"),
        strongest_tests=(3, 1),
        date="2024-03-01",
    )
)
COUNTS = {("taco/1", "small"): (8, 2), ("taco/1", "large"): (8, 8), ("taco/2", "large"): (0, 0)}


def holds(text, counts=None, **changes):
    models = tuple(sorted({model for _, model in counts or {}}))
    condition = parse(text, models, counts)
    row = ROW | changes
    return condition.evaluate({name: row[name] for name in condition.columns})


@pytest.mark.parametrize(
    "text",
    [
        "verified",
        "not multi_answer_suspect",
        "n_tests == 7 and n_tests != 8",
        "5 <= n_tests < 8",
        "n_tests * 2 - 1 > 12 and n_tests / 2 == 3.5 and n_tests // 2 == 3 and n_tests % 4 == 3 and -n_tests < 0",
        "source == 'taco'",
        "source in ('apps', 'taco') and source not in ['deepcoder']",
        "'dp' in tags and 'math' not in tags and len(tags) == 2",
        "1 in strongest_tests",
        "'graph' in statement",
        "words(statement) == 7 and len(statement) > 30",
        "matches(statement, r'\\bgraphs?\\b') and lower(statement) == 'find the shortest path in a graph.'",
        "date >= '2024-01-01'",
        "kind == 'stdin' and checker == 'lcb' and wall_seconds == 4 and memory_mb > 0",
        "reference_language == 'python'",
        "solutions is None and reference is not None",
        "verified == True",
        "(n_tests\n  > 6)  # a comment",
    ],
)
def test_a_condition_reads_like_python(text):
    assert holds(text) is True


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("test_strength > 0.9", None),
        ("test_strength <= 0.9", None),
        ("not test_strength > 0.9", None),
        ("test_strength is None", True),
        ("test_strength is not None", False),
        ("test_strength > 0.9 or verified", True),
        ("test_strength > 0.9 or not verified", None),
        ("test_strength > 0.9 and not verified", False),
        ("test_strength > 0.9 and verified", None),
        ("0.1 <= test_strength <= 0.5", None),
        ("test_strength + 1 > 0", None),
        ("n_tests / n_mutants > 1", None),
        ("len(solutions) > 3", None),
        ("'a' in solutions", None),
        ("platform != 'codeforces'", None),
        ("platform is None", True),
        ("starter_code == ''", True),
    ],
)
def test_a_value_that_is_not_known_makes_no_comparison_true(text, expected):
    assert holds(text) is expected


def test_a_problem_without_a_date_is_not_an_old_one():
    assert holds("date < '2025-01-01'", date="") is None
    assert holds("date is None or date < '2025-01-01'", date="") is True


def test_solve_rates_are_those_of_the_named_model():
    assert holds("0.125 <= solve_rate('small') <= 0.5 and samples('small') == 8", COUNTS)
    assert holds("solve_rate('small') < solve_rate('large')", COUNTS)
    assert holds("solve_rate('large') == 1", COUNTS, id="taco/2") is None
    assert holds("solve_rate('small') is None and samples('small') == 0", COUNTS, id="taco/3")
    one = {("taco/1", "only"): (4, 1)}
    assert holds("solve_rate() == 0.25", one)


@pytest.mark.parametrize(
    ("suite", "kind"),
    [
        (Suite([], entry_point="f"), "function"),
        (Suite([], checker="python", assertions=Assertions(("f",))), "assertions"),
    ],
)
def test_the_kind_of_a_suite_can_be_asked_for(suite, kind):
    assert holds(f"kind == '{kind}'", tests=suite.to_json())


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("n_tests > 5 and test_strenght > 1", 17, "unknown name test_strenght. Did you mean test_strength? There are "),
        ("leng(statement) > 3", 1, "unknown function leng. Did you mean len? There are len, lower, "),
        ("n_tests = 5", 1, "not an expression"),
        ("n_tests > 'many'", 11, "expected a number, not a text"),
        ("'é' in statement and n_tests", 22, "expected true or false, not a number"),
        ("tags == 'dp'", 1, "expected a number or a text or true or false, not a list of texts"),
        ("date == None", 9, "Write `is None` or `is not None`"),
        ("source in ('taco', None)", 20, "Write `is None`"),
        ("verified is True", 13, "only None can stand after `is`"),
        ("statement.lower() == 'a'", 1, "values have no methods. Functions are len, lower, "),
        ("solve_rate('other') > 0", 1, "other was not sampled on this dataset. Sampled: large, small"),
        ("solve_rate() > 0", 1, "name the model in quotes. Sampled: large, small"),
        ("matches(statement, '(')", 20, "not a regular expression"),
        ("matches(statement)", 1, "matches takes 2 arguments, not 1"),
        ("[tag for tag in tags]", 1, "a condition has names, numbers"),
        ("verified or (lambda: True)", 14, "a condition has names, numbers"),
        ("__import__('os').system('true') == 0", 1, "values have no methods"),
        ("n_tests > 1), (verified", 1, "a list can only stand after `in`"),
    ],
)
def test_a_mistake_is_shown_with_its_place_and_what_there_is(text, column, message):
    with pytest.raises(CurateError) as error:
        holds(text, COUNTS)
    assert f"column {column}: " in str(error.value)
    assert message in str(error.value)


def test_a_mistake_on_a_later_line_is_shown_with_its_line():
    with pytest.raises(CurateError, match="line 2, column 5: unknown name nothing"):
        holds("verified\nand nothing > 1")


@pytest.mark.parametrize("text", ["", " ", "(" * 5000, "not " * 50_000 + "verified", "verified\x00"])
def test_text_that_is_no_condition_is_refused_in_words(text):
    with pytest.raises(CurateError, match="condition"):
        holds(text)
