"""A dataset on disk: how it is written, read, continued, described, compared and published.

writer              rows as Parquet
digests             the content hash, and a digest of each row
integrity           whether the rows are those that the manifest describes
locate              the folder of a dataset that a command was given, downloaded from the Hub if it is there
reader              the problems of a dataset, streamed or one at a time
folder              a finished dataset folder: its manifest, and the rows of its tables
query               SQL over the tables, which DuckDB runs
table_files         the files of the smaller tables, in the format of the rows
files               the files of any dataset, and a copy of them without some rows
workspace           who may write to a folder, what is finished, and what can be continued
journal             the record of what has been executed, with a line for each problem
spill               problems and texts kept on disk between the stages
hits                the table `contamination/`
evidence            the table `evidence/`
card                README.md of a dataset that curate built
plain_card          README.md of a dataset that curate did not build
difficulty_section  the section of the card on solve rates
inspect_rows        the first rows, or everything about one row, for people to read
inspect_evidence    why one row fell out, with the expected and the actual outputs side by side
diff                what changed between two datasets
push                publishing a dataset on the Hub
"""
