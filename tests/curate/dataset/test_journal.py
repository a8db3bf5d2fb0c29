import pytest

from curate.dataset.journal import JournalRecords, ResultJournal
from curate.errors import CurateError


def whatever(record):
    return record


def contents(path):
    """Return the records of a journal by key, as a writer and as a reader see them."""
    read = dict(JournalRecords.open(path, whatever))
    with ResultJournal(path) as journal:
        assert read == {key: journal.load(key, whatever) for key in journal}
    return read


def test_records_are_there_when_the_journal_is_opened_again(tmp_path):
    with ResultJournal(tmp_path / "j") as journal:
        journal.add("a", {"n": 1})
    with ResultJournal(tmp_path / "j") as journal:
        assert "a" in journal
        assert journal.load("a", whatever) == {"n": 1}
        assert "b" not in journal


def test_a_record_is_readable_before_the_journal_is_closed(tmp_path):
    with ResultJournal(tmp_path / "j") as journal:
        journal.add("a", 1)
        assert (tmp_path / "j").read_bytes().endswith(b"\n")


@pytest.mark.parametrize("rest", [b"", b"\0", b"\0" * 5000], ids=["cut", "one NUL", "NULs"])
def test_a_journal_cut_at_any_byte_keeps_its_whole_records_and_can_be_continued(tmp_path, rest):
    with ResultJournal(tmp_path / "whole") as journal:
        journal.add("a", [1, 2])
        journal.add("b", "ü")
    whole = (tmp_path / "whole").read_bytes()
    first = whole.index(b"\n")
    for end in range(len(whole) - 1):
        path = tmp_path / f"torn-{end}"
        path.write_bytes(whole[:end] + rest)
        kept = {"a": [1, 2]} if end > first or (end == first and not rest) else {}
        assert contents(path) == kept
        with ResultJournal(path) as journal:
            journal.add("c", 3)
        assert contents(path) == {**kept, "c": 3}


def test_a_last_record_without_its_newline_is_kept(tmp_path):
    path = tmp_path / "j"
    path.write_bytes(b'["a", 1]\n["b", 2]')
    assert list(JournalRecords.open(path, whatever).items()) == [("a", 1), ("b", 2)]
    with ResultJournal(path) as journal:
        journal.add("c", 3)
    assert path.read_bytes() == b'["a", 1]\n["b", 2]\n["c", 3]\n'


def test_lines_of_an_editor_for_windows_are_records(tmp_path):
    path = tmp_path / "j"
    path.write_bytes(b'\xef\xbb\xbf["a", 1]\r\n["b", 2]\r\n')
    assert contents(path) == {"a": 1, "b": 2}


def test_the_last_record_of_a_key_counts(tmp_path):
    path = tmp_path / "j"
    path.write_text('["a", 1]\n["b", 2]\n["a", 3]\n')
    assert contents(path) == {"a": 3, "b": 2}


LINES = [
    "3",
    '["a"]',
    '[["a"], 1]',
    "[1, 2]",
    '["a", 1, 2]',
    '{"a": 1, "b": 2}',
    '"ab"',
    "null",
    "",
    "\0\0",
    '["a", "b',
]


@pytest.mark.parametrize("line", LINES)
def test_a_damaged_line_before_the_last_is_refused_and_nothing_is_lost(tmp_path, line):
    path = tmp_path / "a journal"
    path.write_text(before := f'["a", 1]\n{line}\n["b", 2]\n["c", 3]\n')
    for opened in (ResultJournal, lambda path: JournalRecords.open(path, whatever)):
        with pytest.raises(CurateError, match=r"is damaged: no record at line 2\. .*: sed -i '2d' '/.*/a journal'"):
            opened(path)
    assert path.read_text() == before
    path.write_text('["a", 1]\n["b", 2]\n["c", 3]\n')  # as that command leaves it; the refusal has released the lock
    assert contents(path) == {"a": 1, "b": 2, "c": 3}


@pytest.mark.parametrize("text", ["a note of mine", "\0 and more", "{"])
def test_a_file_of_something_else_is_not_cut(tmp_path, text):
    (tmp_path / "j").write_text(text)
    with pytest.raises(CurateError, match="no record at line 1"):
        ResultJournal(tmp_path / "j")
    assert (tmp_path / "j").read_text() == text


def test_many_damaged_lines_are_counted(tmp_path):
    (tmp_path / "j").write_text('["a", 1]\n' + "x\n" * 12)
    with pytest.raises(CurateError, match=r"at line 2, 3, 4, 5, 6, 7, 8, 9 and 4 more\. .* sed -i '2d;3d;.*;9d' "):
        ResultJournal(tmp_path / "j")


def test_a_record_that_its_reader_refuses_is_named_by_its_line(tmp_path):
    path = tmp_path / "j"
    path.write_text('["a", "1"]\n["b", "one"]\n')
    with ResultJournal(path) as journal:
        assert journal.load("a", int) == 1
        for load in (lambda: journal.load("b", int), lambda: journal.select_records({"id": "b"}, int)["id"]):
            with pytest.raises(CurateError, match=r"no record at line 2 \(invalid literal.*sed -i '2d'"):
                load()


def test_one_process_at_a_time_writes_and_others_read(tmp_path):
    path = tmp_path / "j"
    with ResultJournal(path) as journal:
        journal.add("a", 1)
        with pytest.raises(
            CurateError, match="another command is writing to .*/j. Wait for it, or choose another --out"
        ):
            ResultJournal(path)
        assert list(JournalRecords.open(path, whatever).items()) == [("a", 1)]
    with ResultJournal(path) as journal:
        assert "a" in journal


def test_records_are_read_from_the_file_whenever_they_are_asked_for(tmp_path):
    with ResultJournal(tmp_path / "j") as journal:
        for number in range(3):
            journal.add(f"key {number}", number)
        records = journal.select_records({"a": "key 2", "b": "key 0"}, lambda number: number * 10)
        journal.add("key 3", 3)
        assert list(records.items()) == [("a", 20), ("b", 0)]
    assert (len(records), records["b"], records.get("c"), "c" in records) == (2, 0, None, False)
