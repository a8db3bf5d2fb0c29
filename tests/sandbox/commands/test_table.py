"""Tables are plain lines of fixed widths in files and pipes, and drawn by rich on a terminal."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.commands.table import TableColumn, TableRow, print_table, warn

ROOT = Path(__file__).parents[3]
COLUMNS = (TableColumn("name", 8, is_text=True), TableColumn("count", 7))
ROWS = (TableRow(["a [b]", "12"], "two of them"), TableRow(["long enough to reach over", "3"]))
SHOW = """
import sys; sys.path.insert(0, sys.argv[1]); sys.path.insert(0, sys.argv[2])
from test_table import COLUMNS, ROWS, print_table, warn
print_table(COLUMNS, ROWS); warn("careful")
print("rich" in sys.modules)
"""


def test_elsewhere_a_table_is_plain(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(COLUMNS, ROWS)
    warn("careful")
    printed = capsys.readouterr()
    lines = ["name      count", "a [b]        12", "  two of them", "long enough to reach over      3"]
    assert printed.out.splitlines() == lines
    assert printed.err == "Warning: careful\n"


def shown(term: str) -> str:
    """Return what a terminal of this kind shows."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", SHOW, str(ROOT), str(Path(__file__).parent)]
    environment = {**os.environ, "TERM": term, "COLUMNS": "80"}
    subprocess.run(command, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, check=True)
    os.close(theirs)
    seen = os.read(ours, 65536).decode()
    os.close(ours)
    return seen


def test_on_a_terminal_a_table_has_a_line_below_its_header_and_colours() -> None:
    seen = shown("xterm-256color")
    assert "──" in seen
    assert "\x1b[" in seen
    assert "a [b]" in seen
    assert "two of them" in seen
    assert seen.strip().endswith("True")


def test_a_terminal_that_can_only_print_lines_gets_plain_ones() -> None:
    seen = shown("dumb")
    assert "a [b]        12\r\n" in seen
    assert seen.strip().endswith("False")
