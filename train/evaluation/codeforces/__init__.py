"""The rating that a model would have on Codeforces, over rated contests.

Begin with rating: what the samples of a model are worth in contests, and what a result says of it. contests has the
contests with their file, and the ids of problems; fetch gets contests from Codeforces' public API. SOURCES.md says
where ratings_2024.json, deepcoder_problems.json and the list of contests come from.
"""
