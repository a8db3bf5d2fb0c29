"""One file, one kind of evaluation set: `read(table)` yields an Item for each of its problems.

The file's name is what `--against NAME=LOCATION` calls it; any other name is read by generic.py. A kind with
`SOURCES` holds dated problems of rows that those sources publish, too, and can be given a window of dates.
"""
