"""The commands of this package, one file each.

compare.py            curate compare: paired differences between evaluations of the same problems
config.py             curate config: a configuration file in which every key is explained
difficulty.py         curate difficulty: solve rates of a dataset's problems, and a copy with those in a band
evaluate.py           curate evaluate: pass@1 of a model with its confidence interval; its parts are in evaluation/
evaluations.py        curate evaluations fetch: what evaluations need besides their problems
export_evaluation.py  curate export-evaluation: an evaluation in the forms of other evaluators
plan.py               curate plan: a simulated run, and how to split GPUs between learner and engines
plot.py               curate plot: curves and timelines of runs, evaluations by step, and pass@1 by month
relay.py              curate relay: pass a run's weights on to other machines
rescore.py            curate rescore: judge the answers of an evaluation again
results.py            curate results: models by suites, with what is best
rollout.py            curate rollout: an engine that samples for a training run on another machine
train.py              curate train: a training run
verifier.py           curate verifier: checks what the nodes of a swarm send
"""
