"""The report of a dataset: `report.json`, and `report.html`, a page of the same statistics.

statistics         the funnel, rejections, tests, times and solve rates, by DuckDB queries
duplicate_section  the removed duplicates
histogram          histograms of columns, by DuckDB queries
sections           the statistics as sections, for page.html and curate/text/document.py
report_files       both files of a dataset folder
charts             the layout of the page's charts
html_kit           the Jinja environment of HTML pages, with base.html
word_diff          words that differ between two texts
"""
