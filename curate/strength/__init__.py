"""Measure how many wrong programs the tests of a problem reject.

measurement      the steps, from a problem to its StrengthRecord
strength_record  the result: what the mutants showed about the tests
mutation         making a limited number of wrong programs from a reference
mutants/         the kinds of mistakes
mutant_runs      which mutants the tests kill, and which few tests kill them all
survivors        which of the other mutants are also wrong
extra_inputs     further inputs made from those of the tests
greedy_cover     a few tests that reject everything that all tests reject
"""
