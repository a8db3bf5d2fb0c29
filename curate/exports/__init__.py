"""One file, one trainer or tool whose form a dataset can take. Each has

unfit(problem, options)            why this form cannot hold the problem: one of its REASONS, or None
REASONS                            those fixed words, with what they mean
write(problems, folder, options)   the files, and how to use them in README.md

and, where it bounds how many tests it can run, settle(options), which says so or chooses. A problem comes with the
tests already chosen that a reward is to run.
"""
