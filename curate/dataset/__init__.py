"""A dataset on disk: writing, reading, resuming, describing, comparing and publishing it.

writer              rows of tables as Parquet or lines of JSON
digests             the content hash, and a digest of each row
integrity           the comparison of the rows with the manifest
location            the local folder of a dataset; downloads it if it is on the Hub
dataset             a dataset: its manifest, the rows of its tables, and its problems
query               SQL over the tables, run by DuckDB
files               the files of any dataset, and a copy of them without some rows
needed_packages     the packages that the programs of a dataset may import
output_folder       locking an output folder, and recognizing finished and resumable ones
journal             the results of executed programs, one line per problem
contamination_hits  the table `contamination/`
evidence            the table `evidence/`
card                README.md of a dataset
inspect_rows        the output of `curate inspect`
diff                the differences between two datasets
push                publishing a dataset on the Hub
"""
