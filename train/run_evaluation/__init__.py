"""The evaluations of a training run: when they are due, where they are made, and what becomes of their results.

run_suites.py            the suites of a configuration, by the names that metrics, results and evaluation.keep_best use
schedule.py              when an evaluation is due
result_paths.py          where results lie in the folder of a run
pending_evaluation.py    an evaluation that is not over: what it needs, and what it has found so far
suite_evaluations.py     evaluate a model on the suites
backend.py               what the three places of an evaluation have in common
inline_backend.py        within the step, with the run's engine
overlapped_backend.py    with the run's engine, while it would wait for the learner
process_backend.py       with an engine in a process of its own, which reads the weights from files
evaluation_process.py    that process
best_weights.py          the weights that were best so far
evaluation_scheduler.py  Evaluations, which the loop calls
"""
