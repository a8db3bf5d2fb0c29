"""Recipes as files, and the run of a whole recipe. `curate/recipe.py` defines recipes.

reader       read a recipe: a file, a bundled one, or that of a finished dataset
toml_writer  write a recipe as TOML
runner       run a recipe step by step, skipping finished steps
*.toml       recipes of published datasets, which can be given by their names
"""
