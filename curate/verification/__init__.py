"""Run a problem's solutions and find out whether problem, tests and solutions agree."""
