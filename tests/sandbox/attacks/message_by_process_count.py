# expect: wrong_answer
import os

if input() == "1":
    try:
        for _ in range(50):
            if os.fork() == 0:
                os._exit(0)
    except OSError:
        pass
    print("first")
else:
    try:
        seen = os.getpid() > 40
    except OSError:
        seen = False
    print("ESCAPED" if seen else "contained")
