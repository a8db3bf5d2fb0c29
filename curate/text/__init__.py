"""Text as data.

excerpt    the beginning of a long text
ngrams     words and runs of words of texts, and their hashes
printable  text that is safe to print
"""
