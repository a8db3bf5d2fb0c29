# expect: wrong_answer
import os


def attack(x):
    os.write(3, b"\xff\xfe[[[[{{")
    os._exit(0)
