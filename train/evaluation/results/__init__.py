"""Results of evaluations: the type and its file in result.py, ratings in ratings.py, and all tables in tables.py.

Begin with `Result` in result.py.
"""
