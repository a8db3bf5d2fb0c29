"""The kinds of evaluation sets, one file each. A file's function `read(table)` yields an EvaluationItem per problem.

The file's name is the NAME in `--against NAME=LOCATION`; generic.py reads sets of all other names. `SOURCES` in a file
lists the sources with training rows of the same contests. Only such a set accepts a window of dates.
"""
