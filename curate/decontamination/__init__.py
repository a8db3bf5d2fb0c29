"""Find rows that contain items of an evaluation set, and remove them.

evaluation_set        items, windows of dates, and sets of both; reading those that `--against` names
evaluations/          a file for each kind of evaluation set
problem_keys          the names under which a problem is known
training_set          the rows of a build or of any dataset, in the form in which they are compared
overlap               n-grams of words that two texts have in common
contamination_search  the comparison, which finds the rows that contain items, and the rules that apply
clean_copy            `curate decontaminate`: a copy without these rows
"""
