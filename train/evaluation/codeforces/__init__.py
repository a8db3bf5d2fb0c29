"""The rating that a model would have on Codeforces, in two ways.

contests.py           a rated contest: its problems, and what its participants scored and were rated before
attempts.py           in which attempt a model solves a problem, over all orders of its samples
contest_rating.py     the rating that a score in a contest is worth, as CodeElo computes it
model_rating.py       the rating of a model over contests, with its intervals
percentiles.py        the share of users with a lower rating, from a table that has a name
contest_metadata.py   difficulty and day of problems, as contests tell them
contest_ids.py        contests by their numbers; those that DeepCoder's table of Codeforces ratings uses
difficulty_rating.py  the rating by problem difficulty, for which no standings are needed
rating.py             what an evaluation says about the rating of its model: by contests, or by problem difficulty
deepcoder_problems.py which problem a row of DeepCoder's test set is
public_api.py         contests from the answers of Codeforces' public API
contest_file.py       contests in a Parquet file
api_client.py         asks the public API, patiently and not too often
fetch.py              fetch contests into a file, and continue after an interruption

SOURCES.md says where ratings_2024.json and the list of contests come from. Only contest_file.py and api_client.py need
more than the standard library, namely pyarrow and urllib3.
"""
