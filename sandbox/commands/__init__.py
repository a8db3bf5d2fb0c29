"""The commands that run and judge programs, one file each, and helpers of all commands.

judge          judge the submissions in a file
doctor         show the isolation layers, and test them
serve          judge and run programs over HTTP

console        error messages, missing packages, progress bars
options        options shared by several commands
table          tables and warnings, in color on a terminal
partial_file   an output file that can be resumed after an interruption
"""

COMMANDS = ("doctor", "judge", "serve")
