import pyarrow as pa
import pytest

from curate.dataset.writer import get_schema
from curate.errors import CurateError
from curate.operations.condition import NAMES, evaluate, parse
from curate.problem import COLUMNS, Problem, to_row
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
    counts = counts or {}
    condition = parse(text, sorted({model for _, model in counts}))
    schema = get_schema({name: COLUMNS[name] for name in condition.columns})
    ((_, _, answer),) = evaluate([condition], [pa.RecordBatch.from_pylist([ROW | changes], schema)], counts)
    return answer


@pytest.mark.parametrize(
    "text",
    [
        "verified",
        "not multi_answer_suspect",
        "n_tests == 7 and n_tests != 8",
        "5 <= n_tests and n_tests < 8 and n_tests between 7 and 7",
        "n_tests * 2 - 1 > 12 and n_tests / 2 == 3.5 and n_tests // 2 == 3 and n_tests % 4 == 3 and -n_tests < 0",
        "source == 'taco' and source = \"taco\" and source <> 'apps'",
        "source in ('apps', 'taco') and source not in ['deepcoder'] and not source in []",
        "'dp' in tags and 'math' not in tags and len(tags) == 2",
        "1 in strongest_tests",
        "'graph' in statement",
        "words(statement) == 7 and len(statement) > 30",
        "matches(statement, r'\\bgraphs?\\b') and lower(statement) == 'find the shortest path in a graph.'",
        "date >= '2024-01-01'",
        "kind == 'stdin' and checker == 'lcb' and wall_seconds == 4 and memory_mb > 0",
        "reference_language == 'python'",
        "solutions is null and reference is not null",
        "verified == True",
        "(n_tests\n  > 6)  -- a comment",
        "n_tests - 8 == -1 and (n_tests - 8) // 2 == -1 and (n_tests - 8) % 4 == 3",
        "'Find' < 'a' and e'\\t' not in statement and r'\\t' not in statement",
    ],
)
def test_a_condition_names_columns_and_compares_them(text):
    assert holds(text) is True


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("test_strength > 0.9", None),
        ("test_strength <= 0.9", None),
        ("not test_strength > 0.9", None),
        ("test_strength is null", True),
        ("test_strength is not null", False),
        ("test_strength > 0.9 or verified", True),
        ("test_strength > 0.9 or not verified", None),
        ("test_strength > 0.9 and not verified", False),
        ("test_strength > 0.9 and verified", None),
        ("test_strength between 0.1 and 0.5", None),
        ("test_strength + 1 > 0", None),
        ("n_tests / n_mutants > 1", None),
        ("len(solutions) > 3", None),
        ("'a' in solutions", None),
        ("platform != 'codeforces'", None),
        ("platform is null", True),
        ("starter_code == ''", True),
    ],
)
def test_a_value_that_is_not_known_makes_no_comparison_true(text, expected):
    assert holds(text) is expected


def test_a_problem_without_a_date_is_not_an_old_one():
    assert holds("date < '2025-01-01'", date="") is None
    assert holds("date is null or date < '2025-01-01'", date="") is True


def test_solve_rates_are_those_of_the_named_model():
    assert holds("solve_rate('small') between 0.125 and 0.5 and samples('small') == 8", COUNTS)
    assert holds("solve_rate('small') < solve_rate('large')", COUNTS)
    assert holds("solve_rate('large') == 1", COUNTS, id="taco/2") is None
    assert holds("solve_rate('small') is null and samples('small') == 0", COUNTS, id="taco/3")
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
        (
            "n_tests > 5 and test_strenght > 1",
            17,
            "unknown name test_strenght. Did you mean test_strength? Choose ",
        ),
        ("leng(statement) > 3", 1, "unknown function leng. Did you mean len? Choose one of len, lower, "),
        ("n_tests > 'many'", 11, "expected a number, not a string"),
        ("'é' in statement and n_tests", 22, "expected true or false, not a number"),
        ("tags == 'dp'", 1, "expected a number or a string or true or false, not a list of strings"),
        ("date == None", 9, "Write `is null` or `is not null`"),
        ("date = null", 8, "Write `is null` or `is not null`"),
        ("date is None", 9, "Write `is null` or `is not null`"),
        ("5 <= n_tests < 8", 1, "write `n_tests between 1 and 5`, or `1 <= n_tests and n_tests <= 5`"),
        ("verified # or not", 10, "Begin a comment with --"),
        ("source in {'taco', 'apps'}", 18, "Write a list as [1, 2]"),
        ("source in ('taco')", 12, "Write `in [value]`, or remove the parentheses"),
        ("'\\n' in statement", 1, "Write r'...' for a literal backslash, e'...' for an escape sequence"),
        ('matches(title, r"a")', 17, "in single quotes"),
        ("title == 'it\\'s'", 16, "write '' for a single quote"),
        ("source in ('taco', None)", 20, "Write `is null`"),
        ("verified is true", 10, "only null can follow `is`"),
        ("statement.lower() == 'a'", 1, "values have no methods. The functions are len, lower, "),
        ("solve_rate('other') > 0", 1, "other was not sampled on this dataset. Sampled: large, small"),
        ("solve_rate() > 0", 1, "pass the model's name in quotes. Sampled: large, small"),
        ("matches(statement, '(')", 20, "not a valid RE2 regular expression"),
        ("matches(statement)", 1, "matches takes 2 arguments, not 1"),
        ("[tag for tag in tags]", 1, "a condition may contain names, numbers"),
        ("verified or (lambda: True)", 20, "not an expression"),
        ("__import__('os').system('true') == 0", 18, "values have no methods"),
        ("n_tests > 1), (verified", 1, "not a single expression"),
        ("n_tests in [1, [2]]", 16, "a list can only follow `in`"),
        ("matches(statement, '(?=a)')", 20, "not a valid RE2 regular expression"),
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


@pytest.mark.parametrize(
    "text",
    [
        "id in (SELECT content FROM read_text('/etc/passwd'))",
        "(SELECT true)",
        "EXISTS (FROM '/etc/passwd')",
        "read_csv('/etc/passwd') is null",
        "getenv('HOME') = ''",
        "current_setting('home_directory') = ''",
        "true) FROM read_csv('/etc/passwd') WHERE (true",
        "true) UNION ALL (SELECT true",
        "true), (true",
        "true); SELECT (true",
        "true); COPY (SELECT 1) TO '/tmp/copied'; SELECT (true",
        "true); ATTACH '/tmp/attached.db'; SELECT (true",
        "true); INSTALL httpfs; SELECT (true",
        "true); LOAD httpfs; SELECT (true",
        "true); PRAGMA database_list; SELECT (true",
        "true); SET memory_limit = '1TB'; SELECT (true",
        "true) -- ",
        "true) /*",
        "true /*",
        "*",
        "columns(*)",
        "count(*) > 0",
        "sum(n_tests) OVER () > 0",
        "list_sum(range(1000000000000)) > 0",
        "len(repeat(statement, 1000000000)) > 0",
        "list_apply(tags, tag -> true) is null",
        "len(tags order by tags) > 1",
        "$1",
        "?",
        "n_tests::text = ''",
        "main.lower(title) = ''",
        "rows.n_tests > 1",
        "case when verified then true end",
        "x'00' = title",
    ],
)
def test_a_condition_cannot_do_anything_but_decide_about_a_row(text):
    with pytest.raises(CurateError, match="^condition "):
        parse(text)


def test_a_comment_does_not_swallow_the_end_of_the_query():
    assert holds("verified -- ) FROM nothing") is True
    assert holds("verified /* ) */") is True


def test_texts_and_names_of_models_are_quoted():
    hostile = """x" ' " || getenv('HOME') || ')"""
    quoted = hostile.replace("'", "''")
    assert holds(f"title = '{quoted}'", title=hostile) is True
    assert holds(f"solve_rate('{quoted}') == 0.5", {("taco/1", hostile): (2, 1)}) is True


@pytest.mark.parametrize("name", NAMES)
def test_every_name_can_be_used(name):
    assert holds(f"{name} is null or {name} is not null") is True


def test_rows_stay_in_order():
    condition = parse("n_tests % 2 == 0")
    schema = get_schema({name: COLUMNS[name] for name in condition.columns})
    rows = [ROW | {"id": str(n), "n_tests": n} for n in range(5000)]
    batches = (pa.RecordBatch.from_pylist(rows[begin : begin + 100], schema) for begin in range(0, 5000, 100))
    answers = [(id, answer) for id, _, answer in evaluate([condition], batches, {})]
    assert answers == [(str(n), n % 2 == 0) for n in range(5000)]
