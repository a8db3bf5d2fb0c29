"""The commands that make datasets and show them, one file each. The folder also has the modules that they share:

main      the command `curate` itself, which loads the commands that all packages list in COMMANDS

options   options that several commands have
printing  lines on a terminal of any encoding, hashes, and tables of counts

Code that is shared with the commands of other packages is in sandbox/commands/console.py.
"""

COMMANDS = (
    "build_dataset", "completion", "decontaminate", "diff", "export", "filter", "inspect", "merge", "push", "sources",
    "split", "stats", "verify",
)  # fmt: skip
