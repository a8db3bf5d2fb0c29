"""Text as data.

ngrams     words and n-grams of texts, and their hashes
printable  text that is safe to print, and the beginning of a long text
document   sections of sentences, tables and charts, as lines for a terminal and as Markdown
"""
