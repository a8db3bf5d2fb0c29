"""The trainers and tools that a dataset can be exported to, one file each. `curate export --to` takes the file's name:

    jsonl      records of `curate judge`
    trl        a dataset for GRPOTrainer of TRL
    verifiers  a package with a taskset
    verl       Parquet for verl's loader and scorers

Each file implements `ExportTarget` of _export.py, which has the options, the steps from a finished dataset to a folder
in the target's format, and what the targets share. _taskset.py is copied into packages for verifiers.
"""
