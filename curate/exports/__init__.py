"""The trainers and tools that a dataset can be exported to, one file each. `curate export --to` takes the file's name:

    jsonl      records of `curate judge`
    trl        a dataset for GRPOTrainer of TRL
    verifiers  a package with a taskset
    verl       Parquet for verl's loader and scorers

Each file implements `Target` of _target.py. The files whose names begin with an underscore are shared:

    _export   the steps from a finished dataset to a folder in the target's format
    _target   the interface of a target
    _options  the options that decide the content of an export
    _prompt   the prompts of the problems
    _record   a suite as a record of `curate judge`
    _parquet  Parquet files of nested rows
    _taskset  the module that is copied into packages for verifiers
"""
