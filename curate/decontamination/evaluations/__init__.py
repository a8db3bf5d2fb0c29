"""The kinds of evaluation sets, one file each. Its function `read(table)` yields an EvaluationItem for each problem.

The file's name is the NAME in `--against NAME=LOCATION`; a set with any other name is read by generic.py. If a file has
`SOURCES`, these sources publish the same dated problems as training rows, and the set can be given a window of dates.

codeforces  CodeElo and other sets of Codeforces problems
generic     any table of problems
humaneval   HumanEval, HumanEval+ and other sets in their format
lcb         LiveCodeBench
"""
