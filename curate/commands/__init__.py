"""Commands that build, change and show datasets, one file each, and the modules that they share:

main      the command `curate`, which loads the commands in COMMANDS of all packages
options   options of several commands
printing  output for terminals of any encoding: lines, hashes, and tables of counts

The commands of all packages share sandbox/commands/console.py.
"""

COMMANDS = (
    "build_dataset", "completion", "decontaminate", "diff", "export", "filter", "inspect", "merge", "push", "sources",
    "split", "stats", "verify",
)  # fmt: skip
