"""The commands that make datasets and show them, one file each. They share these modules:

main      the command `curate`, which loads the commands in COMMANDS of all packages
options   options of several commands
printing  lines on a terminal of any encoding, hashes, and tables of counts

The commands of all packages share sandbox/commands/console.py.
"""

COMMANDS = (
    "build_dataset", "completion", "decontaminate", "diff", "export", "filter", "inspect", "merge", "push", "sources",
    "split", "stats", "verify",
)  # fmt: skip
