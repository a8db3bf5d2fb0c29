"""The report of a dataset: `report.json`, numbers computed from a dataset folder, and `report.html`, which shows them.

report_data.py names every section. Most sections have a file of their own, with a function that computes plain values
from the folder. html_page.py shows these values and computes none, so the page always agrees with report.json.

numbers         all sections, the content of report.json
funnel          what became of the rows of each source, stage by stage
rejections      why rows were rejected
evidence        examples of rejected and suspected rows
reference_time  CPU time of the references, compared with the time limits
solve_rates     how often models solve the problems
duplicates      which duplicates were removed
contamination   items of evaluation sets that were found
columns         the number columns of the kept rows
histogram       counts of numbers between edges
page, charts    report.html, and the positions of the bars in its charts
html_kit        templates of HTML pages, and base.html, which they extend
word_diff       the words in which two statements differ
lines           the report as lines for a terminal
files           the report written into a dataset folder
"""
