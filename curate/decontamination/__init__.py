"""The search for rows that contain items of an evaluation set, and their removal.

evaluation_set        evaluation sets with items and date windows; the parser of `--against`
evaluations/          one file per kind of evaluation set
problem_keys          keys of a problem: its normalized URL, and its names on the platform that published it
training_set          rows of a build or of any dataset, prepared for the comparison
overlap               texts that contain passages, by common word n-grams
contamination_search  the rules, and the comparison by them
clean_copy            `curate decontaminate`: a copy without contaminated rows
"""
