"""The strength of a problem's tests: the share of wrong programs that they reject.

measurement   the steps from a problem to its StrengthRecord
mutants       wrong programs made from a reference
mistakes      the kinds of mistakes
extra_inputs  further inputs made from the tests' inputs
"""
