"""Whether references pass their tests, for `curate verify --run`: of a curated dataset, or of any source.

dataset_audit  the result of an audit, also as audit.json, audit.md, and lines for a terminal
references     an audit of a curated dataset: its references are judged again
source         an audit of raw data: a build of a sample of it
"""
