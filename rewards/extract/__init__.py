"""Find the program in a model's answer.

program    choose the one program that is judged
thought    leave out what the model only thought
fences     read the fenced blocks of a text
"""

from rewards.extract.program import PYTHON_ONLY, check_languages, languages_for, program_in, submission_in

__all__ = ["PYTHON_ONLY", "check_languages", "languages_for", "program_in", "submission_in"]
