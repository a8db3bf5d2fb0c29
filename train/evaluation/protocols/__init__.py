"""Protocols: the settings with which others measured what they published.

Begin with settings.py: how a suite can be measured (SuiteSettings), the protocols as a table, and a protocol merged
with what the user gives instead. forms.py has the forms of prompts, to the character.
"""
