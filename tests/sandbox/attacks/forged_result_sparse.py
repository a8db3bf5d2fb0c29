# expect: output_limit or wrong_answer
import os


def attack(x):
    for size in (1 << 24) - 1, 1 << 24, 1 << 40:
        try:
            os.ftruncate(3, size)
        except OSError:
            pass
    os._exit(0)
