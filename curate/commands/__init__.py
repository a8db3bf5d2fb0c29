"""The commands that make datasets and show them, one file each. The folder also has the modules that they share:

against   the option --against
counts    tables of counts
printing  lines on a terminal of any encoding

Code that is shared with the commands of other packages is in sandbox/commands/frame.py.
"""
