"""Measure how many wrong programs the tests of a problem reject.

measurement      the steps, from a problem to its StrengthRecord
strength_record  the result: what the mutants showed about the tests
mutation         making a limited number of wrong programs from a reference
mistakes         the kinds of mistakes; hard_coded, answers taken from the tests, is one more
mutant_runs      which mutants the tests kill, which few tests kill them all, and which of the others are wrong
extra_inputs     further inputs made from those of the tests
"""
