"""An evaluation in the forms that other evaluators read, one module a form, named as users type it with _ for -.

export_data.py    a result with its answers and exercises, which all forms need
livecodebench.py  the rows of LiveCodeBench, as its own code would choose them

lcb.py              what LiveCodeBench's custom evaluator judges
lcb_leaderboard.py  what LiveCodeBench's leaderboard and its computation of scores read
evalplus.py         what EvalPlus judges
"""
