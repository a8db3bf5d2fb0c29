"""The rating of a model on Codeforces, over rated contests.

Begin with rating.py: the worth of a model's samples in contests, and the rating in a result. contests.py has contests,
their file, and the ids of problems; fetch.py gets contests from Codeforces' public API. SOURCES.md has the origins of
ratings_2024.json, deepcoder_problems.json and the list of contests.
"""
