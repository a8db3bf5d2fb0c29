# expect: wrong_answer
import os

if input() == "1":
    try:
        import ctypes

        ctypes.CDLL(None).sethostname(b"message", 7)
    except OSError:
        pass
    print("first")
else:
    try:
        seen = os.uname().nodename == "message"
    except OSError:
        seen = False
    print("ESCAPED" if seen else "contained")
