"""The formats in which sources write tests, one file each. `read(encoded, ...)` returns ParsedTests or raises
ParseError.

inputs_outputs   TACO and APPS: an object of two lists
cases            LiveCodeBench, PrimeIntellect, codeforces: a list of objects, one for each test
named_arguments  LeetCode: `nums = [1, 2], k = 3`
check_function   trainers' copies of LeetCodeDataset: a function of examples, which become calls
assertions       HumanEval, MBPP, KodCode, LeetCodeDataset: Python code, which stays Python
detection        any of these, distinguished by their shape
parsed_tests     the type that all of them return

Tests that are Python code are read without executing them, by these parts:

functions        test functions and test classes
statements       a body of statements, turned into cases
dependencies     what a test needs of the statements before it, and of the submission
literals         values of expressions and calls of literals, and literals for values
"""
