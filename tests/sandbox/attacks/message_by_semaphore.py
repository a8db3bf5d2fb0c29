# expect: wrong_answer
import os

if input() == "1":
    try:
        import ctypes

        ctypes.CDLL(None).semget(0x5A17, 1, 0o1666)
    except OSError:
        pass
    print("first")
else:
    try:
        seen = __import__("ctypes").CDLL(None).semget(0x5A17, 1, 0) >= 0
    except OSError:
        seen = False
    print("ESCAPED" if seen else "contained")
