"""Results of evaluations. Begin with `Result` in result.py, the type and its file.

settings_table.py says how results were measured and in what they differ, tables.py has all tables, and pages.py has the
HTML pages with the answers.
"""
