"""Find the program in a completion.

program      choose the one program that is judged
thinking     leave out what the model only thought
code_blocks  read the fenced blocks of a text
"""

from rewards.extract.program import PYTHON_ONLY, check_languages, extract_program, extract_submission, languages_for

__all__ = ["PYTHON_ONLY", "check_languages", "languages_for", "extract_program", "extract_submission"]
