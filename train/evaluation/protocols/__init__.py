"""Protocols: the settings of published evaluations.

Begin with settings.py: the settings of one suite (SuiteSettings), the protocols as a table, and overrides by the user.
forms.py has the exact prompt forms.
"""
