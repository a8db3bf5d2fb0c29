import pytest

from curate.dataset.journal import ResultJournal


def test_records_are_there_when_the_journal_is_opened_again(tmp_path):
    with ResultJournal(tmp_path / "j") as journal:
        journal.add("a", {"n": 1})
    with ResultJournal(tmp_path / "j") as journal:
        assert "a" in journal
        assert journal["a"] == {"n": 1}
        assert "b" not in journal


def test_a_record_is_readable_before_the_journal_is_closed(tmp_path):
    with ResultJournal(tmp_path / "j") as journal:
        journal.add("a", 1)
        assert (tmp_path / "j").read_bytes().endswith(b"\n")


def test_a_journal_cut_at_any_byte_keeps_its_whole_lines_and_can_be_continued(tmp_path):
    with ResultJournal(tmp_path / "whole") as journal:
        journal.add("a", [1, 2])
        journal.add("b", "ü")
    whole = (tmp_path / "whole").read_bytes()
    first = whole.index(b"\n") + 1
    for end in range(len(whole)):
        path = tmp_path / f"torn-{end}"
        path.write_bytes(whole[:end])
        with ResultJournal(path) as journal:
            assert ("a" in journal) == (end >= first)
            assert "b" not in journal
            journal.add("c", 3)
        with ResultJournal(path) as journal:
            assert journal["c"] == 3


@pytest.mark.parametrize("line", ["3", '["a"]', '[["a"], 1]', "null", "\0\0"])
def test_a_line_that_was_never_added_ends_a_journal(tmp_path, line):
    (tmp_path / "j").write_text(f'["a", 1]\n{line}\n["b", 2]\n')
    with ResultJournal(tmp_path / "j") as journal:
        assert journal["a"] == 1
        assert "b" not in journal
        journal.add("c", 3)
    assert (tmp_path / "j").read_text() == '["a", 1]\n["c", 3]\n'


def test_records_are_read_from_the_file_whenever_they_are_asked_for(tmp_path):
    with ResultJournal(tmp_path / "j") as journal:
        for number in range(3):
            journal.add(f"key {number}", number)
        records = journal.records({"a": "key 2", "b": "key 0"}, lambda number: number * 10)
        journal.add("key 3", 3)
        assert list(records.items()) == [("a", 20), ("b", 0)]
    assert (len(records), records["b"], records.get("c"), "c" in records) == (2, 0, None, False)
