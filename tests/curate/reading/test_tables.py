import gzip
import json
import os

import pyarrow as pa
import pytest
from source_rows import taco_row, write_jsonl, write_parquet

from curate.errors import CurateError
from curate.reading.tables import known_options, locate, read_rows, sha256, size


def values(location, column="a"):
    return [row[column] for row in read_rows(locate(str(location)), [column], [])]


def test_files_of_a_folder_are_read_in_natural_order(tmp_path):
    for n in (10, 2, 1):
        write_jsonl(tmp_path / f"test{n}.jsonl", [{"a": n}])
    write_jsonl(tmp_path / "test.jsonl", [{"a": 0}])
    assert values(tmp_path) == [0, 1, 2, 10]


def test_the_training_split_is_read_if_there_is_one(tmp_path):
    write_parquet(tmp_path / "train-00000-of-00001.parquet", [{"a": 1}])
    write_parquet(tmp_path / "test-00000-of-00001.parquet", [{"a": 2}])
    write_parquet(tmp_path / "other" / "train" / "data-0.parquet", [{"a": 3}])
    write_parquet(tmp_path / ".cache" / "train.parquet", [{"a": 4}])
    assert sorted(values(tmp_path)) == [1, 3]


def test_json_lists_and_arrow_files_are_read(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps([{"a": 1}, {"a": 2}]))
    assert values(tmp_path / "a.json") == [1, 2]
    table = pa.table({"a": [1, 2]})
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    assert values(tmp_path / "a.arrow") == [1, 2]


def packed(text, name):
    if name.endswith(".gz"):
        return gzip.compress(text.encode())
    if name.endswith(".zst"):
        return pa.compress(text.encode(), codec="zstd", asbytes=True)
    return text.encode()


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("a.jsonl", '{"a": "é"}\r\n\n{"a": "2"}\n', id="jsonl"),
        pytest.param("a.json", '[{"a": "é"}, {"a": "2"}]', id="json"),
        pytest.param("a.csv", "b,a\n,é\n1,2\n", id="csv"),
    ],
)
def test_text_may_be_compressed(tmp_path, name, text, ending):
    (tmp_path / (name + ending)).write_bytes(packed(text, ending))
    assert values(tmp_path) == values(tmp_path / (name + ending)) == ["é", "2"]


def test_fields_of_csv_are_texts_that_may_have_many_lines(tmp_path):
    (tmp_path / "a.csv").write_text('a,b\n"x\n""y"", z",\n' + '"' + "1" * 200_000 + '",007\n1,2,3\n1\n', newline="")
    first, second, *broken = read_rows(locate(str(tmp_path)), ["a", "b"], [])
    assert (first, second["b"], len(second["a"])) == ({"a": 'x\n"y", z', "b": None}, "007", 200_000)
    assert [row.place for row in broken] == ["a.csv:5", "a.csv:6"]
    with pytest.raises(CurateError, match="no column c"):
        values(tmp_path, "c")


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_a_damaged_compressed_file_is_an_error_that_names_it(tmp_path, ending):
    whole = packed('{"a": 1}\n' * 100, ending)
    for content in (whole[: len(whole) // 2], b"no such format"):
        (tmp_path / f"a.jsonl{ending}").write_bytes(content)
        with pytest.raises(CurateError, match=f"a.jsonl{ending}: (damaged|line 1)"):
            values(tmp_path)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("a.zip", "an archive. Unpack it"),
        ("a.tar.gz", "an archive. Unpack it"),
        ("a.jsonl.xz", "Unpack it; .jsonl, .json and .csv may end in .gz or .zst"),
        ("a.parquet.gz", "Unpack it"),
        ("a.xlsx", r"Give a file that ends in .parquet, .arrow, .jsonl, .json or .csv"),
    ],
)
def test_other_files_are_refused_with_what_to_do(tmp_path, name, remedy):
    (tmp_path / name).write_bytes(b"?")
    with pytest.raises(CurateError, match=remedy):
        locate(str(tmp_path / name))
    with pytest.raises(CurateError, match="no file inside that can be read"):
        locate(str(tmp_path))
    with pytest.raises(CurateError, match=remedy):
        locate(f"{tmp_path}?files=a*")


def test_descriptions_of_a_data_set_are_not_rows(tmp_path):
    (tmp_path / "dataset_infos.json").write_text("{}")
    (tmp_path / "a.csv").write_text("a\n1\n")
    assert values(tmp_path) == ["1"]


def test_a_missing_optional_column_is_null(tmp_path):
    write_parquet(tmp_path / "a.parquet", [{"a": 1}])
    assert list(read_rows(locate(str(tmp_path)), ["a"], ["b"])) == [{"a": 1, "b": None}]


def test_a_missing_path_is_named(tmp_path):
    with pytest.raises(CurateError, match="nowhere"):
        locate(str(tmp_path / "nowhere"))


def test_a_folder_without_data_is_named(tmp_path):
    with pytest.raises(CurateError, match=r"\.parquet"):
        locate(str(tmp_path))


def test_dangling_links_and_unreadable_folders_are_not_ignored(tmp_path):
    write_parquet(tmp_path / "train-0.parquet", [{"a": 1}])
    (tmp_path / "notes").symlink_to("gone")
    (tmp_path / "self").symlink_to(tmp_path)
    assert values(tmp_path) == [1]
    for target in ("gone", "train-1.parquet"):
        (tmp_path / "train-1.parquet").symlink_to(target)
        with pytest.raises(CurateError, match=r"train-1.parquet: a link to a missing file"):
            locate(str(tmp_path))
        (tmp_path / "train-1.parquet").unlink()
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(CurateError, match="loop: no such file or folder"):
        locate(str(tmp_path / "loop"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look into any folder")
def test_a_folder_that_cannot_be_listed_is_not_ignored(tmp_path):
    write_parquet(tmp_path / "train-0.parquet", [{"a": 1}])
    (tmp_path / "closed").mkdir(mode=0)
    with pytest.raises(PermissionError, match="closed"):
        locate(str(tmp_path))


def test_a_hub_that_cannot_be_reached_is_an_error_that_says_what_to_do(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(CurateError, match="give the folder of a copy"):
        locate("nobody/no-such-data-set-here")


def test_a_missing_column_is_named_with_the_existing_ones(tmp_path):
    write_parquet(tmp_path / "a.parquet", [{"b": 1}])
    with pytest.raises(CurateError, match="no column a .it has b"):
        values(tmp_path)


def test_a_truncated_parquet_file_is_an_error_that_names_it(tmp_path):
    path = write_parquet(tmp_path / "a.parquet", [taco_row("s")])
    whole = path.read_bytes()
    for end in (0, 3, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:end])
        with pytest.raises(CurateError, match="a.parquet"):
            values(path, "question")


def test_a_parquet_file_damaged_inside_is_an_error_that_names_it(tmp_path):
    path = write_parquet(tmp_path / "a.parquet", [taco_row("s" * 1000 + str(n)) for n in range(100)])
    whole = bytearray(path.read_bytes())
    whole[4 : len(whole) // 2] = b"\xff" * (len(whole) // 2 - 4)
    path.write_bytes(whole)
    with pytest.raises(CurateError, match="a.parquet"):
        values(path, "question")


@pytest.mark.parametrize("text", ["[1]\n", "PAR1\x00\x01", "{"], ids=["list", "binary", "torn"])
def test_a_file_that_is_not_jsonl_is_an_error(tmp_path, text):
    (tmp_path / "a.jsonl").write_text(text)
    with pytest.raises(CurateError, match="line 1"):
        values(tmp_path / "a.jsonl")


def test_a_pattern_chooses_among_the_files_of_a_folder(tmp_path):
    for name in ("taco/train-0.parquet", "taco/test-0.parquet", "other/train-0.parquet"):
        write_parquet(tmp_path / name, [{"a": name}])
    assert values(f"{tmp_path}?files=taco/*") == ["taco/test-0.parquet", "taco/train-0.parquet"]
    assert values(f"{tmp_path}?files=*test*") == ["taco/test-0.parquet"]
    with pytest.raises(CurateError, match=r"no file matches nothing\*. There are other/train-0.parquet"):
        locate(f"{tmp_path}?files=nothing*")


def test_unknown_options_are_an_error_that_names_the_known_ones(tmp_path):
    table = locate(f"{write_jsonl(tmp_path / 'a.jsonl', [])}?form=2024-08-01")
    assert known_options(table, ["form"]) == {"form": "2024-08-01"}
    with pytest.raises(CurateError, match="unknown option form. Options are from, to, files"):
        known_options(table, ["from", "to"])


def test_a_folder_has_a_size_and_a_digest_of_its_own(tmp_path):
    write_jsonl(tmp_path / "a" / "b.jsonl", [{"a": 1}])
    before = sha256(tmp_path)
    assert size(tmp_path) == (tmp_path / "a" / "b.jsonl").stat().st_size
    (tmp_path / "a" / "b.jsonl").rename(tmp_path / "a" / "c.jsonl")
    assert sha256(tmp_path) != before
