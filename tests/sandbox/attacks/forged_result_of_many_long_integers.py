# expect: wrong_answer
import os


def attack(x):
    os.write(3, b"[" + b",".join([b"9" * 99_999] * 150) + b"]")
    os._exit(0)
