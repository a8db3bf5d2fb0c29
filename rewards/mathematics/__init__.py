"""Decides with math-verify, in confined processes, whether a mathematical answer is right.

reward      MathReward: find the final answer and turn the comparison into a reward
processes   start the processes, send them answers to compare, and replace those that die
child       the program of such a process
notation    read the units, bases and other notation of an answer
isolation   confine it before it reads what a model wrote
"""
