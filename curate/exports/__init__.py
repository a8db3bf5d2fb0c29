"""Targets of `curate export`, the trainers and tools, one file each. `--to` takes the name of the file:

    jsonl      records of `curate judge`
    trl        a dataset for GRPOTrainer of TRL
    verifiers  a package with a taskset
    verl       Parquet for verl's loader and scorers

Each file implements `ExportTarget` of _export.py, which also has the options, the steps of an export, and shared code.
The target verifiers copies _taskset.py into its packages.
"""
