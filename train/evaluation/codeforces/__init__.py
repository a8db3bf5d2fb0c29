"""The rating that a model would have on Codeforces, in two ways.

contests.py           a rated contest: its problems, and what its participants scored and were rated before
attempts.py           in which attempt a model solves a problem, over all orders of its samples
contest_rating.py     the rating that a score in a contest is worth, as CodeElo computes it
model_rating.py       the rating of a model over contests, with its intervals
percentiles.py        the share of users with a lower rating, from a table that has a name
contest_ids.py        the contests that DeepCoder's table of Codeforces ratings uses
difficulty_rating.py  the rating by problem difficulty, for which no standings are needed
public_api.py         contests from the answers of Codeforces' public API
contest_file.py       contests in a Parquet file

SOURCES.md says where ratings_2024.json and the list of contests come from. Only contest_file.py needs more than the
standard library, namely pyarrow.
"""
