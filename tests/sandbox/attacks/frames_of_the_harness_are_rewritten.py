# expect: wrong_answer or runtime_error
import gc
import sys


def attack(x):
    frame = sys._getframe()
    while frame:
        for value in frame.f_locals.values():
            if isinstance(value, list):
                value[:] = ["ESCAPED"]
        frame = frame.f_back
    for thing in gc.get_objects():
        if isinstance(thing, dict) and "plain" in thing:
            thing["plain"] = lambda value: "CAPED"
    return 0
