"""Completions in which it matters what is taken for the answer."""
