"""The commands in the documentation can be typed, and they do what the page shows."""

import importlib.util
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from documents import PAGES, ROOT, World, blocks, commands, missing

from benchmarks import render
from curate.commands.main import list_command_modules, load_command
from curate.problem import COLUMNS
from train.config import list_presets
from train.run.step_metrics import METRIC_DESCRIPTIONS

_LANGUAGES = {"console", "nginx", "python", "toml", "text"}
_LINK = re.compile(r"\]\((?P<target>[^()\s#]*)(?:#(?P<anchor>[^()\s]+))?\)")


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


_WITH_COMMANDS = [page for page in PAGES if any(block.is_run for block in blocks(page))]


@pytest.fixture
def world(demo: Path, tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "world")
    shutil.copytree(demo, world.folder / "demo")
    try:
        yield world
    finally:
        world.close()


@pytest.mark.parametrize("page", _WITH_COMMANDS, ids=_name)
def test_the_commands_of_a_page_work_and_print_what_it_shows(page: Path, world: World) -> None:
    if shutil.which("curl") is None and any("curl " in block.text for block in blocks(page) if block.is_run):
        pytest.skip("this page calls the service with curl, which is not installed")
    last_printed = ""
    for block in blocks(page):
        place = f"{_name(page)}:{block.line}"
        if block.mark == "prints":
            line = missing(block.text.splitlines(), last_printed)
            assert line is None, f"{place}: {line!r} is not in\n{last_printed}"
        elif not block.is_run:
            continue
        elif block.language == "python":
            status, last_printed = world.python(block.text)
            assert status == block.exit_status, f"{place}:\n{last_printed}"
        else:
            for command, shown in commands(block):
                status = block.exit_status
                if block.mark == "in the background":
                    printed = world.start(command, shown)
                else:
                    status, printed = world.shell(command)
                line = missing(shown, printed)
                assert line is None, f"{place}: {command} did not print {line!r}, but\n{printed}"
                assert status == block.exit_status, f"{place}: {command} ended with {status}:\n{printed}"


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_block_is_of_a_kind_that_is_run_or_only_read(page: Path) -> None:
    for block in blocks(page):
        assert block.language in _LANGUAGES, f"{_name(page)}:{block.line}: ```{block.language}"
        if block.language == "console":
            assert block.text.startswith("$ "), f"{_name(page)}:{block.line} does not begin with a command"
    outside = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert not re.search(r"^ {4}(curate|make|python|pip|torchrun) ", outside, re.MULTILINE), "a command outside a fence"


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for link in _LINK.finditer(text):
        if "://" in link["target"]:
            continue
        target = (page.parent / link["target"]).resolve() if link["target"] else page
        assert target.exists(), f"{_name(page)}: {link['target']}"
        if link["anchor"] and "<!-- render" not in target.read_text():
            assert link["anchor"] in _anchors(target), f"{_name(page)}: {link[0]}"


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_drawings_show_the_files_that_their_page_names() -> None:
    docs = ROOT / "docs"
    named = re.findall(r"\]\(\.\./([\w/]+\.py)\)", (docs / "how-it-fits-together.md").read_text())
    drawn = [
        name
        for drawing in ("row.svg", "completion.svg")
        for name in re.findall(r">\d+ ([\w/]+\.py)<", (docs / drawing).read_text())
    ]
    assert named == drawn
    assert len(named) == 20


def test_the_readme_is_short() -> None:
    assert (ROOT / "README.md").stat().st_size <= 7168


@pytest.mark.parametrize("command", sorted(list_command_modules()))
def test_every_command_has_a_guide(command: str) -> None:
    guides = [page.read_text() for page in PAGES if page.parent == ROOT / "docs" / "guides"]
    assert any(re.search(rf"^\$ curate {command}\b", guide, re.MULTILINE) for guide in guides)


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tables", ROOT / "docs" / "_render" / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("command", sorted(list_command_modules()))
def test_the_reference_has_every_command_with_its_options(command: str, tables: ModuleType) -> None:
    section = tables.commands().partition(f"## curate {command}\n")[2].partition("\n## ")[0]
    for parameter in load_command(command).params:
        assert parameter.opts[0] in section or parameter.human_readable_name in section


def test_the_reference_has_every_column_metric_key_and_preset(tables: ModuleType) -> None:
    assert all(f"| `{name}` |" in tables.columns() for name in COLUMNS)
    assert all(f"| `{name}` |" in tables.metrics() for name in METRIC_DESCRIPTIONS)
    configuration = tables.configuration()
    assert "## `[model]`" in configuration
    assert "## `[[stages]]`" in configuration
    assert "| `learning_rate` | number | `0.0003` |" in configuration
    assert all(f" {name} |" in tables.presets() for name in list_presets())


def test_every_rendered_table_has_its_page(tables: ModuleType) -> None:
    asked = [name for page in PAGES for name in re.findall(r"^<!-- render: (\w+) -->$", page.read_text(), re.MULTILINE)]
    assert sorted(asked) == sorted(tables.PAGES)


@pytest.mark.parametrize("name", sorted(render.PAGES))
def test_numbers_are_those_of_the_results(name: str) -> None:
    page = ROOT / name
    assert render.render_page(page.read_text(), render.PAGES[name]) == page.read_text()
