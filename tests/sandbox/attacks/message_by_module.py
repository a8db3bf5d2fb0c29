# expect: wrong_answer
import os

if input() == "1":
    try:
        import math

        math.message = 1
    except OSError:
        pass
    print("first")
else:
    try:
        seen = hasattr(__import__("math"), "message")
    except OSError:
        seen = False
    print("ESCAPED" if seen else "contained")
