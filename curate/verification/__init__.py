"""Run a problem's solutions and find out whether problem, tests and solutions agree.

references       a solution that passes every test, twice
cross_check      what the other solutions say about the tests
evidence         what solutions answer to the test on which they fail
failure          a failure of a solution on one test
failure_cause    why a solution failed, in one word
program_outputs  a program's own answers to given inputs
metered_sandbox  a sandbox that adds up what it spends on one problem
retries          work on a stream of items in a sandbox that may fail
"""
