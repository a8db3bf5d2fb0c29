"""The commands that run and judge programs, one file each, and the parts that all commands share.

judge          judge the submissions in a file
doctor         show and test the isolation layers
serve          judge and run programs for others, over HTTP

console        explains errors, names missing packages, shows progress
options        the options that several commands share
table          tables and warnings, in colour on a terminal
partial_file   an output file that can be continued after an interruption
"""

COMMANDS = ("doctor", "judge", "serve")
