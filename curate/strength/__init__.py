"""The strength of a problem's tests: their mutation score.

measurement   the steps from a problem to its StrengthRecord
mutants       generation of mutants, wrong programs made from a reference
mistakes      the mutation operators
extra_inputs  further inputs, made from those of the tests
"""
