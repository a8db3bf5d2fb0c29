"""The report of a dataset: `report.json`, and `report.html`, a page of the same statistics.

numbers            the funnel, rejections, tests, times and solve rates, by DuckDB queries
duplicate_section  the removed duplicates
histogram          counts per bin
sections           the statistics as sections, for page.html and curate/text/document.py
report_files       both files of a dataset folder
charts             positions of the bars in the page's charts
html_kit           Jinja templates of HTML pages, with base.html
word_diff          words that differ between two statements
"""
