"""Reading, writing and running recipes. `curate/recipe.py` defines recipes.

reader       read a recipe from a file, the bundled recipes or a finished dataset
toml_writer  write a recipe as TOML
runner       run a recipe step by step, skipping finished steps
*.toml       bundled recipes of published datasets
"""
