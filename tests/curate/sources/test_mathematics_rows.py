r"""Math problems: which rows of NuminaMath, DeepScaleR and one's own tables become problems, and why not."""

import json
import re

import pyarrow.parquet as pq
import pytest
from curate_command import curate
from source_rows import deepscaler_row, numinamath_row, read_parquet, taco_row, words, write_jsonl

from curate.dataset.dataset import Dataset
from curate.dataset.integrity import check_integrity
from curate.errors import CurateError
from curate.options import BuildOptions
from curate.pipeline import build
from curate.problem import Problem
from curate.reading.tables import locate
from curate.sources import deepscaler, generic, numinamath
from sandbox import SandboxOptions

ASKED = "How many positive integers below $100$ have exactly three divisors?"


def read(source, tmp_path, *rows):
    return list(source.read(locate(str(write_jsonl(tmp_path / "rows.jsonl", list(rows))))))


def reason(item):
    return "kept" if isinstance(item, Problem) else item.reason


def test_a_row_of_numinamath_is_a_question_with_an_expected_answer_and_no_tests(tmp_path):
    (problem,) = read(numinamath, tmp_path, numinamath_row(ASKED, "4"))
    assert (problem.id, problem.statement, problem.expected_answer) == ("numinamath/0", ASKED, "4")
    assert (problem.tests.cases, problem.solutions, problem.platform) == ((), None, "olympiads")
    assert (problem.tags, problem.verified) == (("Number Theory",), False)


@pytest.mark.parametrize(
    ("expected", "answer", "statement", "changes"),
    [
        ("proof", "proof", ASKED, {}),
        ("proof", "4", ASKED, {"question_type": "proof"}),
        ("proof", "4", "Let $n$ be odd. Prove that $n^2 - 1$ is divisible by $8$.", {}),
        ("no_answer", "notfound", ASKED, {}),
        ("no_answer", None, ASKED, {}),
        ("multiple_choice", "B", ASKED, {"question_type": "MCQ"}),
        ("multiple_choice", "B", r"What is $1 + 1$? (A) 1 (B) 2 (C) 3 (D) 4", {}),
        ("multiple_choice", "B", r"What is $1 + 1$? $\textbf{(A)}\ 1 \textbf{(B)}\ 2 \textbf{(C)}\ 3$", {}),
        ("several_parts", "4", "Let $a = 2$.\n(1) Find $a^2$.\n(2) Find $a^3$.", {}),
        ("several_parts", "4", "Let $a = 2$. a) Find $a^2$. b) Find $a^3$.", {}),
        ("several_parts", "a) 4, b) 8", "Find the square and the cube of $2$, please.", {}),
        ("image", "4", "Find the area of the triangle in the figure below.", {}),
        ("invalid", "4", ASKED, {"problem_is_valid": "Incomplete"}),
        ("invalid", "4", ASKED, {"solution_is_valid": "Problem not solved"}),
        ("synthetic", "4", ASKED, {"synthetic": True}),
        ("kept", "4", "Find the area in the diagram.\n[asy] draw((0,0)--(1,1)); [/asy]", {}),
        ("kept", "4", "Show that the sum is constant. What is its value?", {}),
        ("kept", "(1, 2)", "Find the point on (1) and on (2), two lines with equations as usual.", {}),
    ],
)
def test_rows_without_one_final_answer_are_rejected_by_reason(tmp_path, expected, answer, statement, changes):
    (item,) = read(numinamath, tmp_path, numinamath_row(statement, answer, **changes))
    assert reason(item) == expected


@pytest.mark.parametrize(
    ("answer", "statement", "detail"),
    [
        ("proof", ASKED, "it asks for a proof, and only final answers are compared"),
        (
            "8",
            "Let $a = 2$.\n(1) Find $a^2$.\n(2) Find $a^3$.",
            "it has several parts, and only one final answer is compared",
        ),
        (None, ASKED, "the source has no answer"),
        ("notfound", ASKED, "the source has no answer: notfound"),
    ],
)
def test_a_rejection_says_in_one_sentence_why_no_answer_can_be_compared(tmp_path, answer, statement, detail):
    (item,) = read(deepscaler, tmp_path, deepscaler_row(statement, answer))
    assert item.detail == detail


def test_deepscaler_and_a_mapping_read_questions_likewise(tmp_path):
    whole, proof = read(deepscaler, tmp_path, deepscaler_row(ASKED, "4"), deepscaler_row(ASKED, "proof"))
    assert (whole.id, whole.expected_answer, whole.licence, proof.reason) == ("deepscaler/0", "4", "mit", "proof")
    path = write_jsonl(tmp_path / "own.jsonl", [{"prompt": ASKED, "answer": 4}])
    fields = {"statement": "prompt", "expected_answer": "answer"}
    (own,) = generic.read(generic.select_files(locate({"location": str(path), "fields": fields})), "own")
    assert (own.id, own.statement, own.expected_answer) == ("own/0", ASKED, "4")


def test_a_mapping_with_an_answer_and_tests_is_an_error(tmp_path):
    path = write_jsonl(tmp_path / "own.jsonl", [{"prompt": ASKED, "answer": 4, "tests": []}])
    fields = {"statement": "prompt", "expected_answer": "answer", "tests": "tests"}
    with pytest.raises(CurateError, match="math problems have no tests"):
        generic.select_files(locate({"location": str(path), "fields": fields}))


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A build of questions of two sources, with copies, variants and an item of an evaluation set, and a program."""
    raw = tmp_path_factory.mktemp("raw")
    story = f"{words('story', 40)} there are 17 apples."
    write_jsonl(raw / "aime.jsonl", [{"problem": words("aime", 40), "answer": "5"}])
    write_jsonl(
        raw / "numina.jsonl",
        [
            numinamath_row(story, r"\frac{1}{2}"),
            numinamath_row(story.replace("17", "19"), "9"),
            numinamath_row(words("aime", 40), "5"),
            numinamath_row(words("broken", 40), r"\frac{1}{"),
            numinamath_row(words("set", 40), r"\{1, 2\}"),
        ],
    )
    write_jsonl(raw / "deepscaler.jsonl", [deepscaler_row(story, "0.5")])
    write_jsonl(raw / "taco.jsonl", [taco_row(words("program"))])
    out = raw / "out"
    sources = [("numinamath", "numina"), ("deepscaler", "deepscaler"), ("taco", "taco")]
    locations = [(name, str(raw / f"{file}.jsonl")) for name, file in sources]
    options = BuildOptions(no_reference="drop", mutants=0)
    against = [f"aime={raw / 'aime.jsonl'}"]
    return out, build(locations, out, options, against=against, sandbox=SandboxOptions(workers=1))


def test_questions_are_verified_deduplicated_and_decontaminated(built):
    out, _ = built
    rejected = {row["id"]: row["reason"] for row in read_parquet(out / "rejected")}
    assert rejected.pop("numinamath/3") == "unparsable_answer"
    assert rejected.keys() == {"numinamath/2", "deepscaler/0"}
    kept = {row["id"]: (row["verified"], row["expected_answer"]) for row in Dataset(out).iter_rows("data")}
    assert kept == {
        "numinamath/0": (True, r"\frac{1}{2}"),
        "numinamath/1": (True, "9"),
        "numinamath/4": (True, r"\{1, 2\}"),
        "taco/0": (True, ""),
    }


def test_a_stage_without_problems_reports_no_progress(tmp_path):
    def stages_of(source, row):
        raw, seen = write_jsonl(tmp_path / f"{source}.jsonl", [row]), []
        options = {"sandbox": SandboxOptions(workers=1), "progress": lambda stage, *_: seen.append(stage)}
        build([(source, str(raw))], tmp_path / source, BuildOptions(mutants=0), **options)
        return dict.fromkeys(seen).keys() & {"verify", "cross-check", "run again", "verify answers"}

    assert stages_of("taco", taco_row(words("program"))) == {"verify", "cross-check", "run again"}
    assert stages_of("numinamath", numinamath_row(ASKED, "4")) == {"verify answers"}


def invoke(*arguments):
    result = curate(*arguments)
    return result.exit_code, result.stdout, result.stderr


def test_commands_show_the_expected_answer_in_place_of_tests(built):
    out, _ = built
    _, listed, _ = invoke("inspect", out)
    assert "numinamath/0  -  yes" in re.sub(" +", "  ", listed)
    _, shown, _ = invoke("inspect", out, "numinamath/0")
    assert "Expected answer, math-verify can parse it" in shown
    assert r"\frac{1}{2}" in shown
    assert not {"Tests", "Reference", "Test strength"} & {line.split(":")[0] for line in shown.splitlines()}
    code, _, error = invoke("inspect", out, "numinamath/0", "--test", 1)
    assert (code, "is a math problem and has no tests" in error) == (1, True)
    _, counted, _ = invoke("stats", out)
    assert re.search(r"Tests per problem\n\n  .*; 1 problem", counted)
    card = " ".join((out / "README.md").read_text().split())
    assert "1 programming problems with tests. For 1 of them" in card
    assert "There are also 3 math problems" in card


def test_an_audit_executes_programs_only(built, tmp_path):
    code, printed, error = invoke("verify", built[0], "--run", "all", "--out", tmp_path / "audit")
    assert code == 0, error
    assert re.search(r"not judged: math problems +3\n +judged +1\n", printed)
    assert re.search(r"fewer than 5 tests +0\n", printed)
    raw = write_jsonl(tmp_path / "raw.jsonl", [numinamath_row(ASKED, "4")])
    code, _, error = invoke("verify", f"numinamath={raw}", "--run", "all", "--out", tmp_path / "raw")
    assert (code, "numinamath contains math problems, which have no programs to execute" in error) == (1, True)


@pytest.mark.parametrize("to", ["jsonl", "trl", "verifiers", "verl"])
def test_an_export_says_that_it_leaves_questions_out(built, tmp_path, to):
    code, printed, error = invoke("export", built[0], "--to", to, "--out", tmp_path / "out")
    assert code == 0, error
    assert "1 of 4 problems in" in printed
    assert "left out: mathematics 3 (math problems; exports have only programming problems" in printed
    left_out = [json.loads(line) for line in (tmp_path / "out" / "left_out.jsonl").read_text().splitlines()]
    assert [row["id"] for row in left_out] == [f"numinamath/{number}" for number in (0, 1, 4)]


def test_the_hashes_cover_expected_answers_where_there_are_any(built, tmp_path):
    out, _ = built
    assert not check_integrity(Dataset.open(out), read_rows=True).faults
    for path in sorted((out / "data").glob("*.parquet")):
        table = pq.read_table(path)
        answers = ["8" if answer == "9" else answer for answer in table["expected_answer"].to_pylist()]
        (tmp_path / "data").mkdir()
        position = table.schema.get_field_index("expected_answer")
        pq.write_table(
            table.set_column(position, table.schema.field(position), [answers]), tmp_path / "data" / path.name
        )
    for name in ("manifest.json", "rejected", "digests.parquet", "README.md", "report.html", "report.json", "evidence"):
        (tmp_path / name).symlink_to(out / name)
    faults = check_integrity(Dataset.open(tmp_path), read_rows=True).faults
    assert any("numinamath/1" in fault.examples for fault in faults)


def test_a_dataset_of_an_earlier_version_has_no_expected_answers(built, tmp_path):
    (path,) = (built[0] / "data").glob("*.parquet")
    (tmp_path / "data").mkdir()
    pq.write_table(pq.read_table(path).drop_columns(["expected_answer"]), tmp_path / "data" / path.name)
    assert {row["expected_answer"] for row in Dataset(tmp_path).iter_rows("data", ("id", "expected_answer"))} == {""}
    assert Dataset(tmp_path).load(0).expected_answer == ""
