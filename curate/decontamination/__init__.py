"""The search for rows that contain items of an evaluation set, and their removal.

evaluation_set        items, windows of dates, and sets of both; the reader of the sets of `--against`
evaluations/          one file per kind of evaluation set
problem_keys          keys of a problem: its names at the sites of its origin
training_set          rows of a build or of any dataset, in the form for the comparison
overlap               word n-grams in common between texts
contamination_search  the rules, and the comparison by them
clean_copy            `curate decontaminate`: a copy without contaminated rows
"""
