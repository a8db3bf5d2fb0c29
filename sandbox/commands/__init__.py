"""The commands that run and judge programs, one file each, and what all commands share.

judge          judge the submissions in a file
doctor         show and check what isolates programs
serve          judge and run programs for others, over HTTP

console        explains errors, names missing packages, shows progress
options        the options that several commands share
table          tables and warnings, in colour on a terminal
partial_file   a file of lines that an interrupted command leaves behind, and that the same command completes
"""

COMMANDS = ("doctor", "judge", "serve")
