"""Read tests that are Python code, without executing them. dialects/assertions.py puts these parts together.

literals          values of expressions of literals, and literals for values
examples          an assertion whose expected value can be taken out
calls             the calls of such assertions, as values
evalplus          the assertion function of EvalPlus
loops             examples in loops over literals
statements        a body of statements, turned into cases
needs             what a test needs of the statements before it, and of the submission
functions         test functions and test classes
pytest_names      what tests use of pytest
solution_imports  imports of the submission
"""
