# expect: wrong_answer
import os

if input() == "1":
    try:
        os.write(os.open("/proc/self/fd/0", os.O_WRONLY | os.O_APPEND), b"message")
    except OSError:
        pass
    print("first")
else:
    try:
        seen = b"message" in os.pread(0, 99, 0)
    except OSError:
        seen = False
    print("ESCAPED" if seen else "contained")
