"""Completions with several candidates for the submitted program."""
