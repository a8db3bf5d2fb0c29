"""The formats in which sources write tests, one file each. `read(encoded, ...)` returns ParsedTests or raises
ParseError.

inputs_outputs  TACO and APPS: an object of two lists
cases           LiveCodeBench, PrimeIntellect, codeforces: a list of objects, one for each test
asserts         trainers' copies of LeetCodeDataset: a function of examples, which become calls
assertions      HumanEval, MBPP, KodCode, LeetCodeDataset: Python code; it stays Python (see curate/reading/assertions)
guess           any of these, distinguished by their shape
parsed          the type that all of them return
primeintellect  the prompt around PrimeIntellect's problems
"""
