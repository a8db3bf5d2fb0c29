# expect: wrong_answer
import os

if input() == "1":
    try:
        import ctypes

        ctypes.CDLL(None).shmget(0x5A17, 4096, 0o1666)
    except OSError:
        pass
    print("first")
else:
    try:
        seen = __import__("ctypes").CDLL(None).shmget(0x5A17, 4096, 0) >= 0
    except OSError:
        seen = False
    print("ESCAPED" if seen else "contained")
