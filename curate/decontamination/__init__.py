"""Find rows that contain items of an evaluation set, and remove them.

evaluation       items, windows of dates, and sets of both
evaluation_sets  reading the sets that `--against` names
evaluations/     a file for each kind of evaluation set
item_texts       the texts by which an item is recognised
problem_keys     the names under which a problem is known
training_set     the rows of any dataset, in the form in which they are compared
rows             the rows of a build, in the form in which they are compared
overlap          runs of words that two texts have in common
decontaminate    the comparison, which finds the rows that contain items, and the rules that apply
copy_without     `curate decontaminate`: a copy without these rows
"""
