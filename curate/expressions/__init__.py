"""Conditions on the rows of a dataset, as `curate filter --where` takes them: `verified and n_tests >= 8`.

    row_values  the values that a condition can name, with their types
    functions   the functions that it can call
    condition   parse the text of a condition, and decide whether a row fulfils it
    compiler    turn its syntax tree into functions of a row, checking types on the way

A condition looks like Python, but it is not executed as Python: only the forms that the compiler knows are accepted.
As in SQL, a value that is not known is null, a comparison with null is null, and only rows for which the whole
condition is true fulfil it. `and`, `or` and `not` follow: `null or true` is true, `null and false` is false.
"""
