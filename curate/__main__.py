"""Entry point of `python -m curate`."""

import sys
from pathlib import Path

# Python puts the working folder first on sys.path, where modules could shadow curate's or its dependencies'.
if not sys.flags.safe_path and Path(sys.path[0]).resolve() != Path(__file__).resolve().parents[1]:
    del sys.path[0]

from curate.commands.main import run

if __name__ == "__main__":
    run()
