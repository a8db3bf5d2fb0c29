"""What the stages share that execute solutions.

failures         how solutions failed, and the cause in one word
program_outputs  a program's own answers to given inputs
metered_sandbox  a sandbox that adds up what it spends on one problem
retries          work on a stream of items in a sandbox that may fail
"""
