"""A dataset on disk: how it is written, read, continued, described, compared and published.

writer              rows of tables as Parquet or lines of JSON
digests             the content hash, and a digest of each row
integrity           whether the rows are those that the manifest describes
location            the folder of a dataset that a command was given, downloaded from the Hub if it is there
dataset             a dataset: its manifest, the rows of its tables, and its problems
query               SQL over the tables, which DuckDB runs
files               the files of any dataset, and a copy of them without some rows
needed_packages     the packages that the programs of a dataset may import
output_folder       who may write to a folder, what is finished, and what can be continued
journal             the record of what has been executed, with a line for each problem
contamination_hits  the table `contamination/`
evidence            the table `evidence/`
card                README.md of a dataset
inspect_rows        the first rows, or everything about one row and why it fell out, for people to read
diff                what changed between two datasets
push                publishing a dataset on the Hub
"""
