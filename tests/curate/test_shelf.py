from curate.shelf import Shelf


def test_records_are_found_again_by_key(tmp_path):
    with Shelf(tmp_path / "shelf") as shelf:
        for n in range(100):
            shelf.add(str(n), {"text": "ä\n" * n})
        assert shelf.load("7") == {"text": "ä\n" * 7}
    with Shelf(tmp_path / "shelf") as shelf:
        assert "99" in shelf
        assert "100" not in shelf
        assert shelf.load("99") == {"text": "ä\n" * 99}


def test_a_torn_last_line_is_cut_off(tmp_path):
    with Shelf(tmp_path / "shelf") as shelf:
        shelf.add("a", 1)
        shelf.add("b", 2)
    whole = (tmp_path / "shelf").read_bytes()
    (tmp_path / "shelf").write_bytes(whole[:-3])
    with Shelf(tmp_path / "shelf") as shelf:
        assert "b" not in shelf
        shelf.add("c", 3)
        assert (shelf.load("a"), shelf.load("c")) == (1, 3)
