"""The search for duplicates: rows with the same text, and rows with nearly the same words. In order of use:

signatures      shingles (word 5-grams) of a text, and the MinHash signature of their set
kernel          the same, compiled
sketches        files with the signatures of many rows, and the rows that share a band with another row
lsh             candidates: rows with a common band
duplicates      the choice of rows to remove, and of the row kept instead of each
problem_series  different problems with similar statements
"""
