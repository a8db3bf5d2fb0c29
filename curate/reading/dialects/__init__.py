"""The formats in which sources write tests, one file each. `read(encoded, ...)` returns Parsed or raises Unparsable.

inputs_outputs  TACO and APPS: an object of two lists
cases           LiveCodeBench, PrimeIntellect, codeforces: a list of objects, one for each test
asserts         LeetCodeDataset, HumanEval: a function of assertions
guess           any of these, distinguished by their shape
parsed          the type that all of them return
primeintellect  the prompt around PrimeIntellect's problems
"""
