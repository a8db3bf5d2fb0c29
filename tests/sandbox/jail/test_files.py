"""A run gets arguments and files, and returns only the requested files."""

import pytest

from sandbox import ExecutionLost, Limits, Outcome, Program, Sandbox


def test_arguments_and_files_reach_the_program(box: Sandbox) -> None:
    program = Program("import sys\nprint(*sys.argv[1:], open('data/table.txt').read(), input())")
    result = box.run(program, "stdin", arguments=["one", "two words"], files={"data/table.txt": "ä".encode()})
    assert result.text == "one two words ä stdin\n"


def test_requested_files_are_returned(box: Sandbox) -> None:
    program = Program("import os\nos.mkdir('a')\nfor name in ('a/b', 'c', 'd'): open(name, 'w').write(name)")
    assert box.run(program, fetch=["a/b", "c", "missing"]).files == {"a/b": b"a/b", "c": b"c"}


def test_files_of_a_failed_program_are_returned(box: Sandbox) -> None:
    result = box.run(Program("open('log', 'w').write('so far')\n1 / 0"), fetch=["log"])
    assert (result.exit_code, result.files) == (1, {"log": b"so far"})


NOT_PLAIN = {
    "link to a file": "os.symlink('/proc/self/environ', 'x')",
    "link to a folder": "os.symlink('/dev', 'x')",
    "folder that is a link": "os.mkdir('d'); open('d/y', 'w').write('y'); os.symlink('d', 'x')",
    "pipe": "os.mkfifo('x')",
    "folder": "os.mkdir('x')",
    "socket": "import socket; socket.socket(socket.AF_UNIX).bind('x')",
}


@pytest.mark.parametrize("make", NOT_PLAIN.values(), ids=NOT_PLAIN)
def test_only_plain_files_are_returned(box: Sandbox, make: str) -> None:
    result = box.run(Program(f"import os\n{make}"), fetch=["x", "x/y", "x/null"])
    assert (result.exit_code, dict(result.files)) == (0, {})


def test_the_output_limit_bounds_returned_files(box: Sandbox) -> None:
    program = Program("import os\nf = open('x', 'w')\nos.ftruncate(f.fileno(), 1 << 40)")
    result = box.run(program, limits=Limits(output_kb=64), fetch=["x"])
    assert len(result.files.get("x", b"")) <= 64 * 1024
    assert box.run(Program("print(7)")).stdout == b"7\n"


def test_the_next_run_finds_no_file_of_the_last(box: Sandbox) -> None:
    look = Program("import os\nprint(sorted(os.listdir()))")
    assert box.run(look, files={"x": b"1"}).text == "['solution.py', 'x']\n"
    assert box.run(look).text == "['solution.py']\n"


def test_large_files_do_not_count_against_the_limits_of_the_program(box: Sandbox) -> None:
    limits = Limits(memory_mb=64, disk_mb=1)
    result = box.run(Program("print(len(open('x').read()))"), limits=limits, files={"x": b"x" * (20 << 20)})
    assert result.outcome is Outcome.EXITED
    assert result.text == f"{20 << 20}\n"


def test_a_run_whose_files_cannot_be_written_is_lost_and_the_next_one_runs() -> None:
    limits = Limits()
    object.__setattr__(limits, "disk_mb", -1)  # the constructor refuses what is too little for the files
    with Sandbox(1) as box:
        if box.level != "namespaces":
            pytest.skip("without namespaces, files of a run lie on the machine's disk, which no test should fill")
        with pytest.raises(ExecutionLost, match="No space left on device"):
            box.run(Program("print(1)"), limits=limits, files={"x": b"x" * (3 << 20)})
        assert box.run(Program("print(2)")).text == "2\n"


def test_more_folders_than_files_are_allowed_are_refused_and_fewer_fit_the_smallest_disk(box: Sandbox) -> None:
    nested = [f"{number}/{'d/' * 90}x" for number in range(64)]
    with pytest.raises(ValueError, match="at most 1000 folders, not 5824"):
        box.run(Program("pass"), files=dict.fromkeys(nested, b""))
    count = Program("import os\nprint(sum(len(files) for _, _, files in os.walk('.')))")
    result = box.run(count, limits=Limits(disk_mb=1), files=dict.fromkeys(nested[:10], b""))
    assert result.text == "11\n"


@pytest.mark.parametrize("name", ["", "/etc/x", "../x", "a/../../x", "a//b", ".", "a\0b", "x" * 300])
def test_names_outside_the_directory_are_refused(box: Sandbox, name: str) -> None:
    with pytest.raises(ValueError, match="relative path"):
        box.run(Program("pass"), files={name: b""})
    with pytest.raises(ValueError, match="relative path"):
        box.run(Program("pass"), fetch=[name])
