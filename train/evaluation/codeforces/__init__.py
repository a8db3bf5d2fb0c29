"""The rating of a model on Codeforces, over rated contests.

Begin with rating.py. contests.py has contests, their file, and the ids of problems; fetch.py fetches contests from
Codeforces' public API. SOURCES.md has the sources of the JSON files and the list of contests.
"""
