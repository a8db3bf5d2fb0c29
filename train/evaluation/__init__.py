"""How often a model solves the problems of a set, with confidence intervals.

exercise.py             Exercise: a problem as a model sees it, its judge, and what is known about it
judges/                 how answers are judged: by tests, by calls, by predictions, by mathematics
extraction.py           how the program is found in an answer
protocols/              the settings of published numbers, and the official forms of prompts
suites/                 the sets of problems: from rows to exercises
exercises.py            read a dataset or a suite
sample_and_judge.py     exercise -> answers -> verdicts, for the next two modules
fingerprints.py         digests of what samples depend on, and of what their verdicts depend on
sample_record.py        a sample as a line of a file
sample_store.py         the samples of an evaluation on disk
evaluate.py             pass@1 with its confidence interval, for `curate evaluate` and within training
difficulty.py           solve rates of each problem, for `curate difficulty`
difficulty_settings.py  how `curate difficulty` samples, and which settings have to stay the same between two calls
result_file.py          an evaluation as a JSON file; model_metadata.py and suite_metadata.py: what it says of model and
                        suite
loaded_result.py        a result with its exercises and answers, for the next two
rescore.py              judge kept answers again, for `curate rescore`
exports.py              the forms of other evaluators, for `curate export-evaluation`
result_metadata.py      what a result keeps of an exercise: its facts and a digest of its tests
adapters/               other harnesses that run the model and use our judges: inspect_ai
results/                result files as users see them: read, compared, and in tables
statistics/             what the samples say about a model, and with which error
codeforces/             the rating that a model would have on Codeforces
"""
