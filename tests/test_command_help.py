"""Every command explains itself: full sentences, the choices of each option, and what holds without it."""

import re

import click
import pytest
from curate_command import curate

from curate.commands.main import list_command_modules, load_command

DEFAULT = re.compile(r"\s+\[default[^][:]*: [^][]*(\[[^][]*\][^][]*)?\]$")
REPEATABLE = ("Can be given several times.", "Repeatable.", "Repeatable; ")
OPTIONS = [
    pytest.param(name, option, id=f"{name} {option.opts[0]}")
    for name in sorted(list_command_modules())
    for option in load_command(name).params
    if isinstance(option, click.Option)
]


@pytest.mark.parametrize(("command", "option"), OPTIONS)
def test_every_option_has_a_sentence_and_says_what_holds_without_it(command: str, option: click.Option) -> None:
    help_text = option.help or ""
    sentence = DEFAULT.sub("", help_text)
    assert re.match(r"[A-Z]", sentence), help_text
    assert sentence.endswith("."), help_text
    context = click.Context(load_command(command))
    shows_default = bool(option.get_help_extra(context).get("default")) or sentence != help_text
    is_repeatable = option.multiple and any(words in sentence for words in REPEATABLE)
    assert option.required or option.is_flag or shows_default or is_repeatable, "what is the default?"


@pytest.mark.parametrize("command", sorted(list_command_modules()))
def test_the_help_of_a_command_begins_with_a_sentence(command: str) -> None:
    first = " ".join((load_command(command).help or "").split("\n\n")[0].split())
    assert re.match(r"[A-Z].*\.$", first), first


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_lists_every_command_with_its_whole_first_sentence(option: str) -> None:
    shown = curate(option, check=True)
    listed = re.findall(r"^  ([a-z-]+)  ", shown.output.partition("Commands:")[2], re.MULTILINE)
    assert listed == sorted(list_command_modules())
    assert "..." not in shown.output.partition("Commands:")[2]


def test_a_command_has_the_name_under_which_its_package_lists_it() -> None:
    for name in list_command_modules():
        assert load_command(name).name == name


@pytest.mark.parametrize("command", sorted(list_command_modules()))
def test_every_command_knows_the_short_form_of_help(command: str) -> None:
    shown = curate(command, "-h")
    assert shown.output.startswith(f"Usage: curate {command} ") or shown.output.startswith(f"Usage: main {command} ")


@pytest.mark.parametrize(
    ("shell", "words"), [("bash", "complete -o nosort"), ("zsh", "#compdef curate"), ("fish", "complete --no-files")]
)
def test_a_script_for_completion_is_printed(shell: str, words: str) -> None:
    shown = curate("completion", shell, check=True)
    assert words in shown.output


def test_commands_options_and_choices_are_completed() -> None:
    def completed(*words: str) -> list[str]:
        environment = {"_CURATE_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(["curate", *words])}
        environment["COMP_CWORD"] = str(len(words))
        shown = curate(prog_name="curate", env=environment)
        return [line.partition(",")[2] for line in shown.output.splitlines()]

    assert completed("de") == ["decontaminate"]
    assert "--run-all" in completed("judge", "--r")
    assert completed("completion", "z") == ["zsh"]
