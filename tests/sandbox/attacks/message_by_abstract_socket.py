# expect: wrong_answer
import os

if input() == "1":
    try:
        import socket
        import time

        listener = socket.socket(socket.AF_UNIX)
        listener.bind("\0message")
        listener.listen()
        if os.fork() == 0:
            time.sleep(5)
    except OSError:
        pass
    print("first")
else:
    try:
        seen = __import__("socket").socket(1).connect("\0message") is None
    except OSError:
        seen = False
    print("ESCAPED" if seen else "contained")
