"""Text as data: runs of words, and text that is safe to print."""
