"""The report of a dataset: `report.json`, numbers computed from a dataset folder, and `report.html`, which shows them.

Pages and terminals compute nothing, so they always agree with report.json.

numbers            the funnel, rejections, tests, times and solve rates, by DuckDB queries
duplicate_section  the removed duplicates
histogram          counts between edges
sections           the numbers as one list of sections, which page.html and curate/text/document.py render
report_files       both files, written into a dataset folder
charts             the positions of the bars in the page's charts
html_kit           templates of HTML pages, and base.html, which they extend
word_diff          the words in which two statements differ
"""
