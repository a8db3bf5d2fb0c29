"""Whether references pass their tests, for `curate verify --run`: of a curated dataset, or of any source.

figures     the result of an audit
references  an audit of a curated dataset: its references are judged again
source      an audit of raw data: a build of a sample of it
report      the result as audit.json, audit.md, and lines for a terminal
"""
