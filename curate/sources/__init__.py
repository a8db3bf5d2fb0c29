"""The sources, one file each: acecode, apps, codecontests, deepcoder, generic, humaneval, kodcode, leetcodedataset,
livecodebench, mbpp, synthetic1 and taco.

`--source` takes the name of the file. Each file has the constants that `curate sources` shows, TITLE, HUB_ID, LICENCE,
SIZE_DESCRIPTION and DEFECTS, and these functions:

read(table)    yields a Problem for each row, or a Rejection for a row that cannot be read
select_files(table)  returns the table with the files to read; only sources with options or folders of their own have it
"""
