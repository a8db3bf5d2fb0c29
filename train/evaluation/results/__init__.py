"""Results of evaluations. Begin with `Result` in result.py, the type and its file.

settings_table.py compares the settings of results, tables.py has all tables, and pages.py the HTML pages.
"""
