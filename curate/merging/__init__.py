"""Several curated datasets as one, for `curate merge`.

    inputs            the datasets, and their rows under names that are distinct
    cross_duplicates  duplicates across the datasets
    evaluations       what earlier comparisons with evaluation sets say about all rows
    solve_rates       the solve rates of the rows that stay
    merged_manifest   the plan and the manifest
    merge             the merge from beginning to end

Rows are copied unchanged. Memory holds ids, sketches and the smaller tables.
"""
