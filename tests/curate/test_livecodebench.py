import base64
import json
import pickle
import zlib

import pytest
from native import DATA, SUM_TESTS, livecodebench_row, pack, words, write_jsonl

from curate.parsing import Unparsable
from curate.problem import Problem, Rejection
from curate.sources.livecodebench import private_tests, read
from curate.tables import locate
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


def test_one_value_per_line_becomes_the_argument_list_in_its_own_words(tmp_path):
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
    with pytest.raises(Unparsable):
        private_tests(encoded)
    assert isinstance(read_rows(tmp_path, livecodebench_row("7", "s", private_test_cases=encoded))[0], Rejection)
    assert capsys.readouterr().out == ""


def test_a_decompression_bomb_is_not_unpacked(monkeypatch):
    monkeypatch.setattr("curate.sources.livecodebench.MOST_UNPACKED_BYTES", 1000)
    with pytest.raises(Unparsable, match="more than"):
        private_tests(pack("x" * 2000))


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(
            livecodebench_row("7", "s", [('1\n"a"', "1"), ('2\n"b"', "Error: list index out of range")], func_name="f"),
            id="an error message as expected value",
        ),
        pytest.param(livecodebench_row("7", "s", [("1\nnope", "1")], func_name="f"), id="an argument that is no JSON"),
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
def test_a_row_with_one_unusable_test_is_rejected_whole(tmp_path, row):
    (rejection,) = read_rows(tmp_path, row)
    assert (rejection.stage, rejection.reason) == ("parse", "unparsable")


def test_a_bad_line_is_a_rejection_and_the_rest_is_read(tmp_path):
    path = write_jsonl(tmp_path / "test.jsonl", [livecodebench_row(str(n), words(n)) for n in range(2)])
    with path.open("a") as file:
        file.write('{"question_id": "torn"')
    items = list(read(locate(str(path))))
    assert [type(item) for item in items] == [Problem, Problem, Rejection]
    assert items[2].id == "livecodebench/test.jsonl:3"


@pytest.mark.skipif(not DATA.is_dir(), reason="the real data are not beside this checkout")
def test_a_real_private_value_decodes_as_published():
    sample = json.loads((DATA / "golden" / "lcb_row0_private.json").read_text())
    assert private_tests(sample["private_test_cases"]) == sample["decoded"]


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
