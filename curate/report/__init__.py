"""The report of a dataset: `report.json`, numbers computed from a dataset folder, and `report.html`, which shows them.

The page computes nothing, so it always agrees with report.json.

sections           all numbers: what became of the rows, why some were rejected, tests, times, solve rates
duplicate_section  which duplicates were removed
histogram          columns of numbers, and counts between edges
report_files       both files, written into a dataset folder
charts             the positions of the bars in the page's charts
html_kit           templates of HTML pages, and base.html, which they extend
word_diff          the words in which two statements differ
terminal_tables    the report as lines for a terminal
"""
