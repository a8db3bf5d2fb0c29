"""Result files of evaluations as users see them: read, compared, and in tables.

reader.py        a result file of this or the earlier schema -> Result
labels.py        short names of several results
summary_json.py  summaries as JSON, and the strata that are known
cost.py          how many tokens were taken, and what they cost
breakdown.py     the table of one evaluation: all problems, then each difficulty, platform and month
difference.py    the tables of `curate compare`: differences, and problems that changed sides
leaderboard.py the models by suites, with what is best and what is not significantly worse
formats.py       a leaderboard as text, Markdown, HTML or CSV
ratings.py       ratings of models, such as that on Codeforces, and their words
tests_source.py  where the tests of an evaluation come from
model_card.py    the section of a model card
"""
