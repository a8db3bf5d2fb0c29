"""The `curate` command, for `python cli.py` in the repository. See curate/commands/main.py."""

from curate.commands.main import main

if __name__ == "__main__":
    main(prog_name="curate")
