"""The trainers and tools that a dataset can be exported to, one file each. `curate export --to` takes the file's name:

    jsonl      records of `curate judge`
    trl        a dataset for GRPOTrainer of TRL
    verifiers  a package with a taskset
    verl       Parquet for verl's loader and scorers

Each file implements `ExportTarget` of _export.py, which also has the options, the steps of an export, and the code that
targets share. _taskset.py is copied into packages for verifiers.
"""
