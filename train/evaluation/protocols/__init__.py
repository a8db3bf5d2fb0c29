"""Protocols: the settings with which others measured what they published. Begin with registry.

registry  how a suite can be measured (SuiteSettings), the protocols as a table, and the forms of prompts by name
settings  a protocol with what the user gives instead: how one suite is measured, and how a result records it
forms     the forms of prompts, to the character
"""
