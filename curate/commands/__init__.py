"""The commands that make datasets and show them, one file each. The folder also has the modules that they share:

main      the command `curate` itself, which loads the commands of all packages by name

against   the option --against
counts    tables of counts
include   the option --include
printing  lines on a terminal of any encoding

Code that is shared with the commands of other packages is in sandbox/commands/console.py.
"""
