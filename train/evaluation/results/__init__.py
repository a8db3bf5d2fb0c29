"""Results of evaluations. Begin with `Result` in result.py, the type and its file.

settings_table.py lists the settings of results and their differences, tables.py has all tables, and pages.py the HTML
pages with the completions.
"""
