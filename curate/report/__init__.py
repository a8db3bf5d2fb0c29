"""What people look at: `report.json`, numbers computed from a dataset folder, and `report.html`, which shows them.

numbers.py reads top to bottom and names every section; each section is one file, a function from the folder to plain
values. page.py draws these values and computes none, so what the page says is what the numbers say.
"""
