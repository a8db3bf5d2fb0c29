import pytest
from source_rows import write_jsonl

from curate.errors import CurateError
from curate.reading.tables import locate


def test_options_follow_the_location(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [{"a": 1}])
    table = locate(f"{path}?from=2024-08-01&release=v4_v5")
    assert (table.location, table.files) == (str(path), (path,))
    assert table.options == {"from": "2024-08-01", "release": "v4_v5"}
    assert locate(str(path)).options == {}


def test_a_toml_file_may_hold_the_location_and_the_options(tmp_path):
    path = write_jsonl(tmp_path / "data" / "a.jsonl", [{"a": 1}])
    mapping = tmp_path / "source.toml"
    mapping.write_text('location = "data"\nfrom = 2024-08-01\n[fields]\nid = "a"\n')
    table = locate(f"{mapping}?to=2025-02-01")
    assert table.files == (path,)
    assert table.options == {"from": "2024-08-01", "to": "2025-02-01", "fields": {"id": "a"}}
    mapping.write_text(f'location = "{path}"')
    assert locate(str(mapping)).files == (path,)


def test_a_toml_file_may_begin_with_a_byte_order_mark_but_must_be_utf_8(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [{"a": 1}])
    mapping = tmp_path / "source.toml"
    mapping.write_text('location = "a.jsonl"\n', encoding="utf-8-sig")
    assert locate(str(mapping)).files == (path,)
    mapping.write_text('location = "a.jsonl"\n', encoding="utf-16")
    with pytest.raises(CurateError, match=r"source.toml: not UTF-8.* position 0.* iconv -f utf-16 -t utf-8"):
        locate(str(mapping))


@pytest.mark.parametrize("query", ["", "from", "from=1&from=2", "=x&"])
def test_options_that_cannot_be_read_are_an_error_that_shows_how(tmp_path, query):
    with pytest.raises(CurateError, match="Write them like from=2024-08-01"):
        locate(f"{tmp_path}?{query}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("location =", "not TOML", id="torn"),
        pytest.param("a = 1", "Write: location =", id="no location"),
        pytest.param('location = "nowhere"', "nowhere: no such file", id="missing"),
        pytest.param('location = "."\nfiles = 3', "files must be one pattern", id="pattern"),
    ],
)
def test_a_wrong_toml_file_is_an_error_that_says_what_to_write(tmp_path, text, message):
    path = tmp_path / "source.toml"
    path.write_text(text)
    with pytest.raises(CurateError, match=message):
        locate(str(path))
