"""One file, one source: `read(table)` yields a Problem, or a Rejection for a row that cannot be read."""
