import base64
import json
import pickle
import zlib

import pytest
from source_rows import DATA, SUM_TESTS, livecodebench_row, pack, words, write_jsonl

from curate.errors import CurateError
from curate.problem import Problem, Rejection
from curate.reading.tables import locate
from curate.reading.values import ParseError
from curate.sources.livecodebench import decode_private_tests, read, select_files
from sandbox import Case

STARTER = "class Solution:\n    def f(self, n: int, s: str) -> int:\n        "


def read_rows(tmp_path, *rows):
    return list(read(locate(str(write_jsonl(tmp_path / "test.jsonl", list(rows))))))


def test_public_tests_come_first_and_private_ones_are_unpacked(tmp_path):
    (problem,) = read_rows(tmp_path, livecodebench_row("7", words(7)))
    assert problem.id == "livecodebench/7"
    assert problem.tests.cases == tuple(Case(i, o) for i, o in SUM_TESTS)
    assert problem.n_public_tests == 2
    assert problem.solutions is None
    assert problem.date == "2024-08-01"


def test_private_tests_may_be_plain_json(tmp_path):
    private = json.dumps([{"input": "9 9\n", "output": "18\n", "testtype": "stdin"}])
    (problem,) = read_rows(tmp_path, livecodebench_row("7", "s", private_test_cases=private))
    assert problem.tests.cases[-1] == Case("9 9\n", "18\n")


def test_one_value_per_line_becomes_the_argument_list_verbatim(tmp_path):
    digits = "8" * 5000
    tests = [('12\n"a\\nb"', "1"), (f'{digits}\n""', digits)]
    row = livecodebench_row("7", "s", tests, func_name="f", starter_code=STARTER)
    (problem,) = read_rows(tmp_path, row)
    assert problem.tests.entry_point == "f"
    assert problem.tests.checker == "lcb"
    assert problem.tests.cases == (Case('[12, "a\\nb"]', "1"), Case(f'[{digits}, ""]', digits))
    row = livecodebench_row("8", "s", [("", "1"), ("[1.10]", "1e2")], func_name="f")
    assert read_rows(tmp_path, row)[0].tests.cases == (Case("[]", "1"), Case("[[1.10]]", "1e2"))


class Boom:
    def __reduce__(self):
        return print, ("this pickle was executed",)


@pytest.mark.parametrize(
    "encoded",
    [
        pytest.param(None, id="null"),
        pytest.param("", id="empty"),
        pytest.param("????", id="no base64"),
        pytest.param(base64.b64encode(b"plain").decode(), id="no zlib"),
        pytest.param(base64.b64encode(zlib.compress(b"plain")).decode(), id="no pickle"),
        pytest.param(base64.b64encode(zlib.compress(pickle.dumps("[]"))[:-6]).decode(), id="torn"),
        pytest.param(pack(Boom()), id="a pickle that calls"),
        pytest.param(pack(Case), id="a pickle that names a class"),
        pytest.param(pack(["not", "text"]), id="a pickled list"),
        pytest.param(pack("[" * 100_000), id="deep json"),
        pytest.param("[{]", id="broken json"),
    ],
)
def test_private_tests_that_cannot_be_unpacked_are_rejected_and_never_executed(tmp_path, capsys, encoded):
    with pytest.raises(ParseError):
        decode_private_tests(encoded)
    assert isinstance(read_rows(tmp_path, livecodebench_row("7", "s", private_test_cases=encoded))[0], Rejection)
    assert capsys.readouterr().out == ""


def test_a_decompression_bomb_is_not_unpacked(monkeypatch):
    monkeypatch.setattr("curate.sources.livecodebench.MAX_UNPACKED_BYTES", 1000)
    with pytest.raises(ParseError, match="more than"):
        decode_private_tests(pack("x" * 2000))


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(
            livecodebench_row("7", "s", [('1\n"a"', "1"), ('2\n"b"', "Error: list index out of range")], func_name="f"),
            id="an error message as expected value",
        ),
        pytest.param(livecodebench_row("7", "s", [("1\nnope", "1")], func_name="f"), id="an argument that is not JSON"),
        pytest.param(
            livecodebench_row("7", "s", metadata=json.dumps({"func_name": "f"})),
            id="stdin tests for a function",
        ),
        pytest.param(
            livecodebench_row("7", "s", [('1\n"a"', "1"), ('"7"', "1")], func_name="f", starter_code=STARTER),
            id="a test of another function",
        ),
        pytest.param(livecodebench_row("7", "s", public_test_cases="{}"), id="no list"),
        pytest.param(livecodebench_row("7", "s", public_test_cases='[{"input": 1}]'), id="no texts"),
    ],
)
def test_a_row_with_one_unusable_test_is_rejected(tmp_path, row):
    (rejection,) = read_rows(tmp_path, row)
    assert (rejection.stage, rejection.reason) == ("parse", "unparsable")


def test_a_bad_line_is_a_rejection_and_the_rest_is_read(tmp_path):
    path = write_jsonl(tmp_path / "test.jsonl", [livecodebench_row(str(n), words(n)) for n in range(2)])
    with path.open("a") as file:
        file.write('{"question_id": "torn"')
    items = list(read(locate(str(path))))
    assert [type(item) for item in items] == [Problem, Problem, Rejection]
    assert items[2].id == "livecodebench/test.jsonl:3"


@pytest.fixture
def releases(tmp_path):
    """Make a folder of six releases. Each has one problem, dated on the first day of the month with its number."""
    for number in range(1, 7):
        row = livecodebench_row(str(number), words(number), contest_date=f"2024-0{number}-01T00:00:00")
        write_jsonl(tmp_path / f"test{number if number > 1 else ''}.jsonl", [row])
    return tmp_path


def ids(location):
    return [item.id.partition("/")[2] for item in read(select_files(locate(location)))]


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("release_v1", "1"),
        ("release_v5", "12345"),
        ("v5", "5"),
        ("v4_v5", "45"),
        ("v1_v6", "123456"),
        ("release_latest", "123456"),
    ],
)
def test_a_release_consists_of_the_files_that_its_loader_takes(releases, release, expected):
    assert "".join(ids(f"{releases}?release={release}")) == expected


def test_a_window_includes_both_its_ends(releases):
    assert ids(f"{releases}?from=2024-02-01&to=2024-04-01") == ["2", "3", "4"]
    assert ids(f"{releases}?from=2024-02-02") == ["3", "4", "5", "6"]
    assert ids(f"{releases}?to=2024-01-31&release=release_v2") == ["1"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("release=5", "no release 5. Choose release_v5, v5"),
        ("release=v7", "release v7 lacks test7.jsonl"),
        ("release=release_v1_v2", "no release release_v1_v2"),
        ("release=v5_v4", "no release v5_v4"),
        ("from=yesterday", "from must be a date such as 2024-08-01, not yesterday"),
        ("from=2024-02-01&to=2024-01-01", "is after"),
        ("window=2024", "unknown option window. Options are release, from, to, files"),
    ],
)
def test_impossible_options_are_explained(releases, query, message):
    with pytest.raises(CurateError, match=message):
        select_files(locate(f"{releases}?{query}"))


def test_a_release_with_missing_files_is_refused(releases):
    (releases / "test3.jsonl").unlink()
    assert ids(f"{releases}?release=v4_v5") == ["4", "5"]
    with pytest.raises(CurateError, match="lacks test3.jsonl"):
        select_files(locate(f"{releases}?release=release_v5"))


def test_a_problem_without_a_date_cannot_be_compared_with_a_window(tmp_path):
    path = write_jsonl(tmp_path / "test.jsonl", [livecodebench_row("7", "s", contest_date=None)])
    (rejection,) = read(select_files(locate(f"{path}?from=2024-01-01")))
    assert rejection.reason == "unparsable"
    assert "no date" in rejection.detail
    assert isinstance(next(read(select_files(locate(str(path))))), Problem)


@pytest.mark.skipif(not DATA.is_dir(), reason="the real data are not beside this checkout")
def test_the_window_of_deepcoder_contains_the_real_problems_of_its_months():
    labels = map(json.loads, (DATA / "labels" / "livecodebench.jsonl").read_text().splitlines())
    inside = {label["id"] for label in labels if "2024-08-01" <= label["contest_date"] <= "2025-02-01"}
    assert inside
    assert set(ids(f"{DATA / 'livecodebench'}?from=2024-08-01&to=2025-02-01")) == inside


@pytest.mark.skipif(not DATA.is_dir(), reason="the real data are not beside this checkout")
def test_a_real_private_value_decodes_as_published():
    sample = json.loads((DATA / "golden" / "lcb_row0_private.json").read_text())
    assert decode_private_tests(sample["private_test_cases"]) == sample["decoded"]


@pytest.mark.skipif(not DATA.is_dir(), reason="the real data are not beside this checkout")
def test_foreign_tests_in_a_corrupt_file_are_noticed_in_every_row(tmp_path):
    rows = []
    for number, row in enumerate(json.loads((DATA / "golden" / "livecodebench_corrupt_20.json").read_text())):
        functional = row["tests"][0]["testtype"] == "functional"
        name = row["starter_code"].partition("def ")[2].partition("(")[0]
        rows.append(
            livecodebench_row(str(number), row["problem"], starter_code=row["starter_code"])
            | {"public_test_cases": json.dumps(row["tests"]), "private_test_cases": "[]"}
            | {"metadata": json.dumps({"func_name": name} if functional else {})}
        )
    assert {item.reason for item in read_rows(tmp_path, *rows)} == {"unparsable"}
