import json

import pytest
from datasets import load_dataset
from source_rows import DATA, SUM, SUM_TESTS, words, write_jsonl, write_parquet

from curate.errors import CurateError
from curate.pipeline import BuildOptions, build
from curate.problem import Problem, Rejection, Wrapping
from curate.reading.tables import locate
from curate.sources.generic import read, select_files
from sandbox import Assertions, Case, Program

CASES = tuple(Case(i, o) for i, o in SUM_TESTS)
ROW = {"q": words(0), "in": [i for i, _ in SUM_TESTS], "out": [o for _, o in SUM_TESTS], "code": SUM}
FIELDS = {"statement": "q", "inputs": "in", "outputs": "out"}


def write_mapping(folder, fields, location="rows.jsonl", **options):
    lines = [f"{name} = {json.dumps(value)}" for name, value in {"location": location, **options}.items()]
    lines += ["[fields]", *(f"{name} = {json.dumps(path)}" for name, path in fields.items())]
    path = folder / "mapping.toml"
    path.write_text("\n".join(lines))
    return str(path)


def read_rows(folder, rows, fields, **options):
    write_jsonl(folder / "rows.jsonl", rows)
    return list(read(select_files(locate(write_mapping(folder, fields, **options)))))


def test_columns_become_a_problem(tmp_path):
    row = ROW | {"task": "a/7", "seconds": 2, "topics": ["dp"], "when": "2024-08-01", "where": "somewhere"}
    fields = FIELDS | {"id": "task", "solutions": "code", "time_limit": "seconds", "tags": "topics"}
    fields |= {"date": "when", "platform": "where"}
    (problem,) = read_rows(tmp_path, [row], fields, licence="cc0-1.0")
    assert (problem.id, problem.statement, problem.licence) == ("generic/a/7", words(0), "cc0-1.0")
    assert problem.tests.cases == CASES
    assert problem.solutions == (Program(SUM),)
    assert problem.tests.limits.wall_seconds == 10.0
    assert (problem.tags, problem.date, problem.platform) == (("dp",), "2024-08-01", "somewhere")


def test_a_problem_without_an_id_is_named_after_its_position(tmp_path):
    assert [p.id for p in read_rows(tmp_path, [ROW, ROW], FIELDS)] == ["generic/0", "generic/1"]


def test_a_source_without_solutions_differs_from_a_row_without_solutions(tmp_path):
    assert read_rows(tmp_path, [ROW], FIELDS)[0].solutions is None
    rows = read_rows(tmp_path, [ROW | {"code": None}, ROW], FIELDS | {"solutions": "code"})
    assert [len(problem.solutions) for problem in rows] == [0, 1]


def test_paths_step_into_objects_lists_and_json_text(tmp_path):
    tests = json.dumps({"tests": json.dumps([{"input": i, "output": o} for i, o in SUM_TESTS])})
    row = {"prompt": [{"content": words(0)}], "reward_model": {"ground_truth": tests}}
    fields = {"statement": "prompt.0.content", "tests": "reward_model.ground_truth.tests"}
    (problem,) = read_rows(tmp_path, [row], fields)
    assert (problem.statement, problem.tests.cases) == (words(0), CASES)


def test_parquet_with_structs_of_lists_is_read(tmp_path):
    row = {"q": words(0), "tests": {"i": ROW["in"], "o": ROW["out"]}, "s": {"lang": ["C++", "py"], "text": ["x", SUM]}}
    write_parquet(tmp_path / "rows.parquet", [row])
    fields = {"statement": "q", "inputs": "tests.i", "outputs": "tests.o", "solutions": "s.text", "language": "s.lang"}
    (problem,) = read(select_files(locate(write_mapping(tmp_path, fields, "rows.parquet"))))
    assert problem.tests.cases == CASES
    assert problem.solutions == (Program("x", "cpp"), Program(SUM))


def test_a_path_steps_into_each_object_of_a_list(tmp_path):
    solutions = [{"lang": "C++", "text": "x"}, {"lang": "py", "text": SUM}]
    tests = [{"stdin": i, "stdout": o, "seconds": 1} for i, o in SUM_TESTS]
    fields = {"statement": "q", "inputs": "t.stdin", "outputs": "t.stdout", "solutions": "s.text", "language": "s.lang"}
    for encoded in (solutions, json.dumps(solutions)):
        (problem,) = read_rows(tmp_path, [{"q": words(0), "t": tests, "s": encoded}], fields)
        assert problem.tests.cases == CASES
        assert problem.solutions == (Program("x", "cpp"), Program(SUM))


@pytest.mark.parametrize("wrap", [lambda solution: solution, lambda solution: [solution]])
def test_solutions_that_are_objects_are_refused_with_the_path_to_write(tmp_path, wrap):
    row = ROW | {"code": wrap({"lang": "py", "text": SUM})}
    (rejection,) = read_rows(tmp_path, [row], FIELDS | {"solutions": "code"})
    assert rejection.detail == "solutions are objects with lang, text. Name one of these, such as code.lang"
    (problem,) = read_rows(tmp_path, [row], FIELDS | {"solutions": "code.text", "language": "code.lang"})
    assert problem.solutions == (Program(SUM),)


def test_a_statement_that_is_no_text_is_a_rejection(tmp_path):
    row = ROW | {"q": [{"role": "user", "content": words(0)}]}
    (rejection,) = read_rows(tmp_path, [row], FIELDS | {"statement": "q.content"})
    assert "statement is not a text. Name one of its elements" in rejection.detail


def test_public_tests_come_first_and_are_counted(tmp_path):
    public, hidden = ([{"input": i, "output": o} for i, o in some] for some in (SUM_TESTS[:2], SUM_TESTS[1:]))
    fields = {"statement": "q", "public_tests": "shown", "tests": "hidden"}
    whole, only_hidden, only_shown = read_rows(
        tmp_path,
        [
            {"q": "s", "shown": shown, "hidden": rest}
            for shown, rest in ((public, hidden), (None, hidden), (public, []))
        ],
        fields,
    )
    assert (whole.tests.cases, whole.n_public_tests, whole.n_tests_read) == (CASES, 2, 7)
    assert (only_hidden.tests.cases, only_hidden.n_public_tests) == (CASES[1:], 0)
    assert (only_shown.tests.cases, only_shown.n_public_tests) == (CASES[:2], 2)
    mixed = [{"q": "s", "shown": public, "hidden": {"inputs": [[1]], "outputs": [1], "fn_name": "f"}}]
    (rejection,) = read_rows(tmp_path, mixed, fields)
    assert rejection.detail == "public_tests and tests are of several kinds or for several functions"


def test_arguments_in_columns_may_have_names(tmp_path):
    row = {"q": "s", "f": "add", "in": ["a = 1, b = [2]", "a = 3, b = []"], "out": ["true", "None"]}
    (problem,) = read_rows(tmp_path, [row], FIELDS | {"fn_name": "f"})
    assert problem.tests.cases == (Case("[1, [2]]", "true"), Case("[3, []]", "null"))


SWE = {"repo": "a/b", "instance_id": "a__b-1", "base_commit": "0ab", "patch": "diff --git", "problem_statement": "Bug"}


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(SWE | {"test_patch": "diff --git a/t.py"}, id="SWE-bench"),
        pytest.param({**SWE, "base_commit": None, "FAIL_TO_PASS": ["t"], "test_patch": ""}, id="SWE-smith"),
    ],
)
def test_a_task_in_a_repository_is_refused_as_such(tmp_path, row):
    fields = {"statement": "problem_statement", "inputs": "in", "outputs": "out", "solutions": "patch"}
    program = ROW | {"problem_statement": "s", "patch": SUM, "repo": "a/b"}
    swe, other = read_rows(tmp_path, [ROW | row, program], fields)
    assert (swe.id, swe.stage, swe.reason) == ("generic/0", "parse", "repository_task")
    assert swe.detail == "a task in the repository a/b; curate judges programs, not repositories"
    assert isinstance(other, Problem)  # that it has the columns of a commit does not matter


def test_an_encoding_is_named_in_the_mapping_and_is_part_of_the_plan(tmp_path):
    row = ROW | {"q": "naïve " + words(0)}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row, ensure_ascii=False), encoding="latin-1")
    location = write_mapping(tmp_path, FIELDS | {"solutions": "code"}, encoding="latin-1")
    manifest = build([("own", location)], tmp_path / "out", BuildOptions(mutants=0))
    assert manifest.n_kept == 1
    assert manifest.plan.configuration["source_options"]["own"]["encoding"] == "latin-1"
    (kept,) = load_dataset(str(tmp_path / "out"), split="train", cache_dir=str(tmp_path / "cache"))
    assert kept["statement"] == row["q"]


def test_one_language_may_be_given_for_all_solutions(tmp_path):
    row = ROW | {"code": ["int main() {}", "int main() { }"]}
    (problem,) = read_rows(tmp_path, [row], FIELDS | {"solutions": "code"}, language="cpp")
    assert [solution.language for solution in problem.solutions] == ["cpp", "cpp"]


def test_calls_in_columns_of_text_are_json(tmp_path):
    row = {"q": "s", "f": "Solution().add", "in": ["[1, 2]", "[3, 4]"], "out": ["[3]", "[7]"]}
    (problem,) = read_rows(tmp_path, [row], FIELDS | {"fn_name": "f"})
    assert problem.tests.entry_point == "add"
    assert problem.tests.cases == (Case("[1, 2]", "[3]"), Case("[3, 4]", "[7]"))
    assert problem.wrapping is Wrapping.NONE  # there is nothing to decide it by
    (problem,) = read_rows(tmp_path, [row | {"code": SUM}], FIELDS | {"fn_name": "f", "solutions": "code"})
    assert problem.wrapping is Wrapping.UNDECIDED


def test_units_and_the_checker_are_taken_from_the_mapping(tmp_path):
    row = ROW | {"ms": 1500, "bytes": 600 * 2**20}
    fields = FIELDS | {"time_limit": "ms", "memory_limit": "bytes"}
    (problem,) = read_rows(tmp_path, [row], fields, time_unit="ms", memory_unit="bytes", checker="floats")
    assert (problem.tests.limits.wall_seconds, problem.tests.limits.memory_mb) == (7.5, 600)
    assert problem.tests.checker == "floats"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"in": ["1"]}, id="different lengths"),
        pytest.param({"out": None}, id="null"),
        pytest.param({"code": [1]}, id="a number for a program"),
        pytest.param({"code": '["torn'}, id="torn"),
    ],
)
def test_a_row_that_cannot_be_read_is_a_rejection_and_the_rest_is_read(tmp_path, change):
    broken, whole = read_rows(tmp_path, [ROW | change, ROW], FIELDS | {"solutions": "code"})
    assert isinstance(broken, Rejection)
    assert (broken.id, broken.stage, broken.reason) == ("generic/0", "parse", "unparsable")
    assert whole.tests.cases == CASES


@pytest.mark.parametrize(
    ("fields", "options", "message"),
    [
        pytest.param(
            {"statement": "q", "tests": "t", "input": "in"}, {}, "unknown field input. Fields are id,", id="field"
        ),
        pytest.param({"tests": "t"}, {}, "needs statement", id="no statement"),
        pytest.param({"statement": "q"}, {}, "needs tests, both inputs and outputs, solutions,", id="no tests"),
        pytest.param({"statement": "q", "inputs": "in"}, {}, "either tests or both", id="no outputs"),
        pytest.param(FIELDS | {"public_tests": "t"}, {}, "needs tests in addition to public_tests", id="public tests"),
        pytest.param(FIELDS | {"tests": "t"}, {}, "either tests or both", id="tests twice"),
        pytest.param(FIELDS, {"license": "mit"}, "unknown option license. Options are fields, licence", id="option"),
        pytest.param(FIELDS, {"checker": "fuzzy"}, "Choose one of any_of, codeforces, exact", id="checker"),
        pytest.param(FIELDS, {"time_unit": "hours"}, "Choose one of s, ms", id="unit"),
        pytest.param(FIELDS, {"language": 3}, "language must be a string", id="language"),
    ],
)
def test_a_wrong_mapping_is_an_error_that_says_what_to_write(tmp_path, fields, options, message):
    write_jsonl(tmp_path / "rows.jsonl", [ROW])
    with pytest.raises(CurateError, match=message):
        select_files(locate(write_mapping(tmp_path, fields, **options)))


def test_data_without_a_mapping_is_an_error_that_says_what_to_add(tmp_path):
    with pytest.raises(CurateError, match="Give a TOML file"):
        select_files(locate(str(write_jsonl(tmp_path / "rows.jsonl", [ROW]))))


def test_any_number_of_mappings_are_read_each_under_a_name_of_its_own(tmp_path):
    locations = []
    for number, name in enumerate(["ours", "theirs-2"]):
        folder = tmp_path / name
        folder.mkdir()
        write_jsonl(folder / "rows.jsonl", [ROW | {"q": words(number), "id": "a/7"}, {"q": None, "in": 1, "out": 1}])
        locations.append((name, write_mapping(folder, FIELDS | {"id": "id"}, licence=f"licence {number}")))
    manifest = build(locations, tmp_path / "out", BuildOptions())
    assert {name: counts.n_kept for name, counts in manifest.counts.items()} == {"ours": 1, "theirs-2": 1}
    rows = load_dataset(str(tmp_path / "out"), split="train", cache_dir=str(tmp_path / "cache"))
    assert [(row["id"], row["source"], row["licence"]) for row in rows] == [
        ("ours/a/7", "ours", "licence 0"),
        ("theirs-2/a/7", "theirs-2", "licence 1"),
    ]
    rejected = load_dataset(str(tmp_path / "out"), "rejected", split="train", cache_dir=str(tmp_path / "cache"))
    assert [(row["id"], row["source"]) for row in rejected] == [("ours/1", "ours"), ("theirs-2/1", "theirs-2")]
    card = (tmp_path / "out" / "README.md").read_text()
    assert "| Your own data (ours) | licence 0 | rows.jsonl |" in card


def test_a_mapping_cannot_have_the_name_of_a_source(tmp_path):
    write_jsonl(tmp_path / "rows.jsonl", [ROW])
    with pytest.raises(CurateError, match="give the data another name, such as my_taco"):
        build([("taco", write_mapping(tmp_path, FIELDS))], tmp_path / "out", BuildOptions())
    with pytest.raises(CurateError, match="unknown source ours. .* pass --source ours=mapping.toml"):
        build([("ours", str(tmp_path / "rows.jsonl"))], tmp_path / "out", BuildOptions())


def test_rows_of_csv_are_read(tmp_path):
    tests = json.dumps({"inputs": ROW["in"], "outputs": ROW["out"]}).replace('"', '""')
    (tmp_path / "rows.csv").write_text(f'q,t,code,ms\n{words(0)},"{tests}","{SUM}",1500\n')
    fields = {"statement": "q", "tests": "t", "solutions": "code", "time_limit": "ms"}
    (problem,) = read(select_files(locate(write_mapping(tmp_path, fields, "rows.csv", time_unit="ms"))))
    assert (problem.tests.cases, problem.solutions) == (CASES, (Program(SUM),))
    assert problem.tests.limits.wall_seconds == 7.5


def test_statements_and_solutions_without_tests_are_kept_only_on_request(tmp_path):
    write_jsonl(tmp_path / "rows.jsonl", [ROW])
    location = write_mapping(tmp_path, {"statement": "q", "solutions": "code"})
    manifest = build([("pairs", location)], tmp_path / "dropped", BuildOptions())
    assert manifest.counts["pairs"].rejected == {"filter": {"few_tests": 1}}
    build([("pairs", location)], tmp_path / "kept", BuildOptions(min_tests=0))
    (row,) = load_dataset(str(tmp_path / "kept"), split="train", cache_dir=str(tmp_path / "cache"))
    assert (row["n_tests"], row["verified"], row["reference"], row["solutions"]) == (0, False, None, [SUM])


ASSERTS = ["assert add(1, 2) == 3", "assert near(add(1, 2), 3)", "assert helper() == 1"]


def test_assertions_are_read_with_the_code_that_belongs_to_them(tmp_path):
    row = {"q": "s", "t": ASSERTS, "p": "def helper():\n    return 1", "s": ["from math import isclose as near"]}
    fields = {"statement": "q", "tests": "t", "given": "p", "setup": "s"}
    (problem,) = read_rows(tmp_path, [row], fields)
    assert problem.tests.assertions == Assertions(("add",), row["p"], row["s"][0])
    assert problem.tests.cases == (Case("add(1, 2)", "3"), Case(ASSERTS[1], ""), Case(ASSERTS[2], ""))
    assert problem.tests.checker == "python"
    (rejection,) = read_rows(tmp_path, [row], fields, checker="floats")
    assert "no checker floats" in rejection.detail


def test_a_missing_column_is_named(tmp_path):
    with pytest.raises(CurateError, match="no column question .it has"):
        read_rows(tmp_path, [ROW], FIELDS | {"statement": "question"})


def test_a_field_that_no_row_has_is_an_error_rather_than_an_empty_column(tmp_path):
    with pytest.raises(CurateError, match='no row has a value for difficulty = "level"'):
        read_rows(tmp_path, [ROW, ROW], FIELDS | {"difficulty": "level"})


def test_the_mapping_is_part_of_the_plan(tmp_path):
    write_jsonl(tmp_path / "rows.jsonl", [ROW])
    location = write_mapping(tmp_path, FIELDS | {"solutions": "code"}, licence="mit")
    manifest = build([("generic", location)], tmp_path / "out", BuildOptions())
    assert manifest.counts["generic"].n_verified == 1
    options = manifest.plan.configuration["source_options"]
    assert options == {"generic": {"licence": "mit", "fields": FIELDS | {"solutions": "code"}}}
    assert [file.name for file in manifest.plan.inputs["generic"]] == ["rows.jsonl"]
    assert build([("generic", location)], tmp_path / "out", BuildOptions()) == manifest
    with pytest.raises(CurateError, match="source_options was"):
        build([("generic", write_mapping(tmp_path, FIELDS))], tmp_path / "out", BuildOptions())


@pytest.mark.skipif(not DATA.is_dir(), reason="the real data are not beside this checkout")
def test_a_real_training_file_of_verl_is_read(tmp_path):
    fields = {"statement": "prompt.0.content", "tests": "reward_model.ground_truth.tests", "id": "extra_info.index"}
    fields["starter_code"] = "prompt.0.content"  # the only place that names the function
    location = write_mapping(tmp_path, fields, str(DATA / "golden" / "verl_livecodebench_50.parquet"))
    items = list(read(select_files(locate(location))))
    assert [item.id for item in items] == [f"generic/{n}" for n in range(50)]
    assert {type(item) for item in items} == {Problem}
    assert items[0].tests.entry_point is None
    assert items[30].tests.entry_point == "minimumCost"
    assert items[30].tests.cases[0] == Case('["0011"]', "2")


@pytest.mark.skipif(not DATA.is_dir(), reason="the real data are not beside this checkout")
def test_no_reference_passes_in_a_corrupt_file_whose_rows_all_share_one_test(tmp_path):
    fields = {"statement": "problem", "tests": "tests", "solutions": "completion"}
    location = write_mapping(tmp_path, fields, str(DATA / "golden" / "leetcodedataset_corrupt_20.json"))
    manifest = build([("generic", location)], tmp_path / "out", BuildOptions(min_tests=2))
    assert manifest.counts["generic"].n_kept == 0
    assert manifest.counts["generic"].rejected == {"verify": {"reference_fails": 20}}


@pytest.mark.skipif(not DATA.is_dir(), reason="the real data are not beside this checkout")
def test_foreign_tests_in_a_corrupt_file_are_noticed_in_every_row(tmp_path):
    fields = {"statement": "problem", "tests": "tests", "starter_code": "starter_code"}
    location = write_mapping(tmp_path, fields, str(DATA / "golden" / "livecodebench_corrupt_20.json"))
    assert {item.reason for item in read(select_files(locate(location)))} == {"unparsable"}
