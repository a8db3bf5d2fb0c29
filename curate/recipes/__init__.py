"""Readers, the writer and the runner of recipes. `curate/recipe.py` defines recipes.

reader       recipes from files, bundled recipes, and recipes of finished datasets
toml_writer  a writer of TOML
runner       execution of a recipe step by step, without the finished steps
*.toml       bundled recipes of published datasets
"""
