"""Extraction of the program in a completion.

program      the program to judge
thinking     the removal of the model's thinking
code_blocks  the fenced blocks of a text
"""

from rewards.extract.program import PYTHON_ONLY, check_languages, extract_program, extract_submission, select_languages

__all__ = ["PYTHON_ONLY", "check_languages", "select_languages", "extract_program", "extract_submission"]
