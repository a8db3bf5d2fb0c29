"""Other harnesses run the model, and our judges score its answers in our sandbox.

for_inspect has a dataset, a scorer and a task for inspect_ai. It is not named after the package, so that no script
beside it imports the wrong one. examples/lighteval_tasks.py does the same for lighteval.
"""
