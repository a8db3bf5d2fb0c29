"""Rollout files: the answers to one lease, as a node uploads them and a verifier reads them.

A file is Parquet, zstd, with one row for each answer, in the order of their numbers. A node writes it with our code;
what a verifier gets may be anything. So it is parsed by a process that can do nothing but that: it has no network,
opens no file, starts nothing, inherits nothing, and ends after 2 seconds of processor time or at 1 GB of memory. What
this process says is read as if an attacker had written it.

Not covered: a bug of the kernel that can be reached through the few system calls which the parser keeps.

rows.py          Row and RolloutFile
sizes.py         how large a file may be
parquet.py       the schema of the files
writer.py        writes one
confinement.py   takes from a process what a parser does not need
parser_process.py         runs in the confined process: reads one file that nobody trusts
parse_result.py  what that process says
parser.py        starts that process
decoder.py       reads what it says
validation.py    does the file answer the lease?
reader.py        all of it: the answers, or a verdict
self_test.py     can this machine read such files at all?
"""
