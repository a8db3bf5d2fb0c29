# expect: wrong_answer
import os

os.write(3, b'"ESC')


def attack(x):
    return "APED"
