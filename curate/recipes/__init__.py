"""Recipes as files, and the run of a whole recipe. `curate/recipe.py` says what a recipe is.

reader       read a recipe: a file, one that is shipped here, or that of a finished dataset
toml_writer  write a recipe as TOML
runner       run a recipe step by step; what is finished is left as it is
*.toml       recipes of published datasets, which can be given by their names
"""
