import codecs
import gzip
import json
import lzma
import os

import pyarrow as pa
import pytest
from source_rows import taco_row, write_jsonl, write_parquet

from curate.errors import CurateError
from curate.reading.tables import compute_size_bytes, hash_path, locate, read_rows, validate_options


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


def test_json_lists_are_read(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps([{"a": 1}, {"a": 2}]))
    assert values(tmp_path / "a.json") == [1, 2]


def write_arrow(path, rows, new=pa.ipc.new_stream):
    table = pa.Table.from_pylist(rows)
    with new(str(path), table.schema) as writer:
        writer.write_table(table)


@pytest.mark.parametrize("name", ["a.arrow", "a.ARROW", "a.feather", "a.ipc"])
@pytest.mark.parametrize("new", [pa.ipc.new_stream, pa.ipc.new_file])
def test_arrow_streams_and_arrow_files_are_read_under_all_their_names(tmp_path, name, new):
    rows = [{"a": n, "b": "x"} for n in range(40)]
    write_arrow(tmp_path / name, rows, new)
    assert values(tmp_path) == values(tmp_path / name) == list(range(40))
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CurateError, match=f"{name}: corrupt or truncated"):
        values(tmp_path)


def test_only_the_files_that_state_json_names_are_rows_of_a_saved_data_set(tmp_path):
    import datasets

    datasets.Dataset.from_list([{"a": n} for n in range(8)]).save_to_disk(tmp_path / "saved")
    loaded = datasets.load_from_disk(tmp_path / "saved")
    loaded.map(lambda row: {"a": row["a"] + 100})  # leaves its result beside the rows, as cache-....arrow
    assert len(list((tmp_path / "saved").glob("*.arrow"))) == 2
    assert values(tmp_path) == list(range(8))
    (tmp_path / "saved" / "data-00000-of-00001.arrow").unlink()
    with pytest.raises(CurateError, match=r"state.json names data-00000-of-00001.arrow, which is missing"):
        locate(str(tmp_path))


def test_results_that_datasets_caches_beside_a_prepared_data_set_are_not_rows(tmp_path):
    (tmp_path / "dataset_info.json").write_text("{}")
    write_arrow(tmp_path / "own-train.arrow", [{"a": 1}])
    write_arrow(tmp_path / "cache-0123456789abcdef.arrow", [{"a": 2}])
    assert values(tmp_path) == [1]


def packed(text, name):
    if name.endswith(".gz"):
        return gzip.compress(text.encode())
    if name.lower().endswith(".xz"):
        return lzma.compress(text.encode())
    if name.endswith(".zst"):
        return pa.compress(text.encode(), codec="zstd", asbytes=True)
    return text.encode()


@pytest.mark.parametrize("ending", ["", ".gz", ".zst", ".xz", ".XZ"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("a.jsonl", '{"a": "é"}\r\n\n{"a": "2"}\n', id="jsonl"),
        pytest.param("a.json", '[{"a": "é"}, {"a": "2"}]', id="json"),
        pytest.param("a.csv", "b,a\n,é\n1,2\n", id="csv"),
        pytest.param("a.tsv", "b\ta\n\té\n1,0\t2\n", id="tsv"),
    ],
)
def test_text_may_be_compressed(tmp_path, name, text, ending):
    (tmp_path / (name + ending)).write_bytes(packed(text, ending))
    assert values(tmp_path) == values(tmp_path / (name + ending)) == ["é", "2"]


def test_fields_of_csv_are_texts_that_may_have_many_lines(tmp_path):
    (tmp_path / "a.csv").write_text('a,b\n"x\n""y"", z",\n' + '"' + "1" * 200_000 + '",007\n1,2,3\n1\n', newline="")
    first, second, *broken = read_rows(locate(str(tmp_path)), ["a", "b"], [])
    assert (first, second["b"], len(second["a"])) == ({"a": 'x\n"y", z', "b": None}, "007", 200_000)
    assert [row.location for row in broken] == ["a.csv:5", "a.csv:6"]
    with pytest.raises(CurateError, match="no column c"):
        values(tmp_path, "c")


@pytest.mark.parametrize("ending", [".gz", ".zst", ".xz"])
def test_a_damaged_compressed_file_is_an_error_that_names_it(tmp_path, ending):
    whole = packed('{"a": 1}\n' * 100, ending)
    for content in (whole[: len(whole) // 2], b"no such format"):
        (tmp_path / f"a.jsonl{ending}").write_bytes(content)
        with pytest.raises(CurateError, match=f"a.jsonl{ending}: (corrupt|line 1)"):
            values(tmp_path)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("a.zip", "an archive. Unpack it"),
        ("a.tar.gz", "an archive. Unpack it"),
        ("a.jsonl.bz2", "Unpack it; .jsonl, .json, .csv and .tsv may end in .gz, .zst or .xz"),
        ("a.parquet.gz", "Unpack it"),
        ("a.xlsx", r"Give a file that ends in .parquet, .arrow, .feather, .ipc, .jsonl, .json, .csv or .tsv"),
    ],
)
def test_other_files_are_refused_with_what_to_do(tmp_path, name, remedy):
    (tmp_path / name).write_bytes(b"?")
    with pytest.raises(CurateError, match=remedy):
        locate(str(tmp_path / name))
    with pytest.raises(CurateError, match="no supported file inside"):
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
    assert validate_options(table, ["form"]) == {"form": "2024-08-01"}
    with pytest.raises(CurateError, match="unknown option form. Options are from, to, files, encoding"):
        validate_options(table, ["from", "to"])


def test_a_folder_has_a_size_and_a_digest_of_its_own(tmp_path):
    write_jsonl(tmp_path / "a" / "b.jsonl", [{"a": 1}])
    before = hash_path(tmp_path)
    assert compute_size_bytes(tmp_path) == (tmp_path / "a" / "b.jsonl").stat().st_size
    (tmp_path / "a" / "b.jsonl").rename(tmp_path / "a" / "c.jsonl")
    assert hash_path(tmp_path) != before


TEXTS = {"a.jsonl": '{"a": "café"}\n', "a.json": '[{"a": "café"}]', "a.csv": "a\ncafé\n", "a.tsv": "a\tb\ncafé\t1\n"}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_byte_order_mark_of_utf_8_is_not_part_of_the_first_column(tmp_path, name, ending):
    (tmp_path / (name + ending)).write_bytes(packed("\ufeff" + TEXTS[name], ending))
    assert values(tmp_path) == values(f"{tmp_path}?encoding=utf-8") == ["café"]


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize(
    ("encoding", "mark", "likely"),
    [
        pytest.param("latin-1", b"", "latin-1", id="latin-1"),
        pytest.param("cp1252", b"", "latin-1", id="cp1252, where it is the same as latin-1"),
        pytest.param("utf-16", b"", "utf-16", id="utf-16 with a mark"),
        pytest.param("utf-16-le", b"", "utf-16", id="utf-16 without a mark"),
        pytest.param("utf-16-be", codecs.BOM_UTF16_BE, "utf-16", id="big-endian utf-16 with a mark"),
        pytest.param("utf-32", b"", "utf-32", id="utf-32"),
    ],
)
def test_another_encoding_is_read_if_it_is_named_and_otherwise_refused(tmp_path, name, encoding, mark, likely):
    (tmp_path / name).write_bytes(mark + TEXTS[name].encode(encoding))
    assert values(f"{tmp_path}?encoding={encoding}") == ["café"]
    with pytest.raises(CurateError, match=rf"{name}: not UTF-8 .*\?encoding={likely}"):
        values(tmp_path)


def test_the_likely_encoding_is_shown_with_what_the_text_reads_in_it(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'{"a": "it\x92s na\xefve"}\n')
    with pytest.raises(CurateError, match=r'decodes to "{"a": "it’s naïve"}.*\?encoding=cp1252'):
        values(tmp_path)


@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8], ids=["plain", "marked"])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_wrong_byte_in_utf_8_is_found_and_no_other_encoding_suggested(tmp_path, mark, ending):
    # Characters of two bytes that stand across the borders of all buffers.
    text = mark + b'{"a": "' + "é".encode() * 1_500_000 + b'"}\n{"a": "\xe9"}\n'
    (tmp_path / f"a.jsonl{ending}").write_bytes(gzip.compress(text, 1) if ending else text)
    with pytest.raises(CurateError, match=rf"UTF-8 with an invalid byte .byte 0xe9 at offset {len(text) - 4}\)"):
        values(tmp_path)


def test_an_encoding_that_does_not_fit_is_an_error(tmp_path):
    (tmp_path / "a.csv").write_bytes("a\ncafé\n".encode())
    with pytest.raises(CurateError, match=r"a.csv: not ascii .byte 0xc3 at offset 5.*encoding=utf-8"):
        values(f"{tmp_path}?encoding=ascii")
    (tmp_path / "a.csv").write_bytes(codecs.BOM_UTF8 + b"a\n1\n")
    with pytest.raises(CurateError, match=r"a.csv: not latin-1 .*byte order mark of utf-8.*encoding=utf-8"):
        values(f"{tmp_path}?encoding=latin-1")
    for name in ("none", "hex", ""):
        with pytest.raises(CurateError, match=f"unknown encoding '{name}'. Write the name"):
            locate(f"{tmp_path}?encoding={name}")
    write_parquet(tmp_path / "b.parquet", [{"a": 1}])
    with pytest.raises(CurateError, match=r"b.parquet is not a text file. Remove the option encoding"):
        locate(f"{tmp_path}/b.parquet?encoding=latin-1")
