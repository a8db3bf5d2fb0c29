"""Remove duplicates: rows with the same text, and rows with nearly the same words.

duplicates   which rows are removed, and which row stays in place of each
sketches     the data about each problem that the comparison of rows needs
shingles     a text as the set of its runs of words, and the Jaccard similarity of two sets
minhash      signatures that estimate this similarity
lsh          candidates: the rows whose signatures share a band
series       different problems that have similar statements
distributed  deduplication of more rows than one machine can handle
"""
