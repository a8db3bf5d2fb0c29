"""The command `curate`, in this process."""

from typing import Any

from click.testing import CliRunner, Result

from curate.commands.main import main


def curate(*words: object, check: bool = False, **options: Any) -> Result:
    """Run the command with these words, and check that it shows no traceback.

    check    whether it has to succeed
    options  those of CliRunner.invoke
    """
    result = CliRunner().invoke(main, list(map(str, words)), **options)
    assert not result.exception or isinstance(result.exception, SystemExit), result.exception
    assert not check or result.exit_code == 0, result.output
    return result
