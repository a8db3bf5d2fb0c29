"""Operations on finished datasets: filter, split and merge. Each derives new datasets (derivation.py).

condition   the language of `curate filter`, such as `test_strength > 0.9`
row_filter  the rows that fulfil conditions
splitting   parts for training and validation
merging     one dataset without duplicates, from several
"""
