"""Text processing: words and n-grams, safe printing, and documents.

ngrams     words and n-grams of texts, and their hashes
printable  text that is safe to print, and excerpts of long texts
document   sections of sentences, tables and charts, rendered for a terminal or as Markdown
"""
