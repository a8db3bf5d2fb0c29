"""Measure how many wrong programs the tests of a problem reject.

measurement   the steps, from a problem to its StrengthRecord
mutants       making a limited number of wrong programs from a reference
mistakes      the kinds of mistakes
extra_inputs  further inputs made from those of the tests
"""
