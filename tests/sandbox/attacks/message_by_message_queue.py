# expect: wrong_answer
import os

if input() == "1":
    try:
        import ctypes

        ctypes.CDLL(None).msgget(0x5A17, 0o1666)
        ctypes.CDLL(None).mq_open(b"/message", 0o102, 0o600, None)
    except OSError:
        pass
    print("first")
else:
    try:
        seen = (
            __import__("ctypes").CDLL(None).msgget(0x5A17, 0) >= 0
            or __import__("ctypes").CDLL(None).mq_open(b"/message", 2) >= 0
        )
    except OSError:
        seen = False
    print("ESCAPED" if seen else "contained")
