"""Remove duplicates: rows with the same text, and rows with nearly the same words. In the order of the work:

signatures      a text as the set of its shingles, word 5-grams, and the MinHash signature of this set
kernel          the same, compiled
sketches        the files with the signatures of many rows, and those of these rows that are worth comparing
lsh             candidates: the rows whose signatures share a band
duplicates      the choice of rows to remove, and of the row kept instead of each
problem_series  different problems that have similar statements
"""
