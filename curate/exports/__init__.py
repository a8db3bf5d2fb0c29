"""The trainers and tools that a dataset can be exported to, one file each. `curate export --to` takes the file's name:

    jsonl      records of `curate judge`
    trl        a dataset for GRPOTrainer of TRL
    verifiers  a package with a taskset
    verl       Parquet for verl's loader and scorers

Each file implements `ExportTarget` of _export.py. The files whose names begin with an underscore are shared:

    _export   the options, the interface of a target, and the steps from a finished dataset to a folder in its format
    _format   prompts, suites as records of `curate judge`, and Parquet files of nested rows
    _taskset  the module that is copied into packages for verifiers
"""
