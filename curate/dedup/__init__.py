"""Remove duplicates: rows with the same text, and rows with nearly the same words. In the order of the work:

signatures      a text as the set of its shingles, word 5-grams, and the MinHash signature of this set
kernel          the same, compiled
sketches        files with the signatures of many rows, and the rows that share a band with another row
lsh             candidates: the rows whose signatures share a band
duplicates      the choice of rows to remove, and of the row kept instead of each
problem_series  different problems with similar statements
"""
