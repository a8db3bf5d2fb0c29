"""Text as data.

ngrams     words and n-grams of texts, and their hashes
printable  text that is safe to print, and excerpts of long texts
document   sections of sentences, tables and charts, rendered for a terminal or as Markdown
"""
