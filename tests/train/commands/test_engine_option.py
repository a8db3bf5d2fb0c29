"""Commands that sample have the option --engine, and leave processors to the programs that they judge."""

import os

import click
import pytest
from click.testing import CliRunner

from train.commands.options import engine_option


@click.command()
@engine_option
def command(engine):
    click.echo(f"{engine} {os.environ['OMP_WAIT_POLICY']}")


def test_an_option_of_the_engine_arrives_as_a_value_of_its_type():
    assert CliRunner().invoke(command, ["--engine", "concurrency=3"]).output.startswith("{'concurrency': 3} ")


@pytest.mark.parametrize("chosen", ["", "active"])
def test_threads_that_wait_sleep_unless_the_user_wants_otherwise(monkeypatch, chosen):
    monkeypatch.setenv("OMP_WAIT_POLICY", chosen)
    if not chosen:
        monkeypatch.delenv("OMP_WAIT_POLICY")
    assert CliRunner().invoke(command, []).output == f"{{}} {chosen or 'passive'}\n"
