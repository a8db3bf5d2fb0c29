"""Find the fenced blocks of our pages, and run them.

A comment on the line before a block says what is special about it:

    <!-- not run: REASON -->      the block needs something that tests do not have, such as a GPU or a network
    <!-- exits with 1: REASON --> the exit status of the block's last command
    <!-- in the background -->    the block's command goes on while the rest of the page is run, and is then ended
    <!-- prints -->               the block is the output of the Python block before it

In a console block, a line that begins with "$ " is a command, and the lines after it are its output. `...` stands for
any text.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import forked

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "examples" / "README.md"])

_FENCE = re.compile(
    r"^(?:<!-- (?P<mark>[^>]*) -->\n+)?```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_MAX_SECONDS = 600  # long enough for a busy machine


@dataclass(frozen=True, slots=True)
class Block:
    line: int
    language: str
    text: str
    mark: str

    @property
    def exit_status(self) -> int:
        return int(self.mark.split()[2].rstrip(":")) if self.mark.startswith("exits with ") else 0

    @property
    def is_run(self) -> bool:
        return self.language in ("console", "python") and not self.mark.startswith("not run: ")


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(text.count("\n", 0, found.start("text")), found["language"], found["text"], found["mark"] or "")
        for found in _FENCE.finditer(text)
    ]


def commands(block: Block) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of a console block with the output that the block shows for it."""
    command = ""
    shown: list[str] = []
    for line in block.text.splitlines():
        if command.endswith("\\"):
            command += "\n" + line
        elif line.startswith("$ "):
            if command:
                yield command, shown
            command, shown = line[2:], []
        else:
            shown.append(line)
    yield command, shown


class World:
    """A folder in which the commands of a page are run as a reader would run them in the repository."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._tools = folder.parent / f"{folder.name}-tools"
        self._background: list[subprocess.Popen[str]] = []
        folder.mkdir(parents=True)
        self._tools.mkdir()
        for name in ("examples", "Makefile", "pyproject.toml"):
            (folder / name).symlink_to(ROOT / name)
        self._tool("curate", forked.shell_command(sys.executable, "-m", "cli"))
        self._tool("python", forked.shell_command(sys.executable))
        # The environment exists already: make must not set up another one.
        self._tool("make", f'"/usr/bin/make" --old-file .venv/ready --old-file .venv/train BIN="{self._tools}"')

    def _tool(self, name: str, command: str) -> None:
        path = self._tools / name
        path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        path.chmod(0o755)

    @property
    def _environment(self) -> dict[str, str]:
        return os.environ | {
            "PATH": f"{self._tools}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "HF_HUB_OFFLINE": "1",
            "COLUMNS": "120",
        }

    def shell(self, command: str) -> tuple[int, str]:
        """Run a command, and return its exit status and everything that it printed."""
        process = self._process(command)
        try:
            printed, _ = process.communicate(timeout=_MAX_SECONDS)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)  # also what the command has started
            process.wait()
            raise
        return process.returncode, printed

    def _process(self, command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def python(self, text: str) -> tuple[int, str]:
        script = self.folder / "block.py"
        script.write_text(text)
        return self.shell("python block.py")

    def start(self, command: str, shown: list[str]) -> str:
        """Start a command in the background, and return its output as soon as all shown lines have been printed."""
        process = self._process(f"exec {command}")
        self._background.append(process)
        assert process.stdout is not None
        printed = ""
        while missing(shown, printed) and (line := process.stdout.readline()):
            printed += line
        return printed

    def close(self) -> None:
        for process in self._background:
            process.terminate()
            process.communicate(timeout=_MAX_SECONDS)


def missing(shown: list[str], printed: str) -> str | None:
    """Return the first shown line that was not printed after the lines before it, or None if all were printed.

    Numbers with a fraction are measurements, and the lengths of bars follow from them, so their values do not matter.
    """
    lines = iter([_stable(line) for line in re.split(r"[\r\n]+", printed)])
    for line in shown:
        pattern = re.escape(_stable(line)).replace(re.escape("..."), ".*")
        if pattern not in ("", ".*") and not any(re.fullmatch(pattern, other) for other in lines):
            return line
    return None


def _stable(line: str) -> str:
    return " ".join(re.sub(r"#+", "#", re.sub(r"\d+(\.\d+)+", "#", line)).split())
