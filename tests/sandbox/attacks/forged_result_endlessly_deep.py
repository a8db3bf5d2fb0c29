# expect: wrong_answer
import os


def attack(x):
    os.write(3, b'{"tuple":[' * 500_000)
    os._exit(0)
