"""Protocols: the settings of published evaluations.

Begin with settings.py: the settings of one suite (SuiteSettings), the protocols as a table, and the merge of a protocol
with the user's overrides. forms.py has the forms of prompts, to the character.
"""
