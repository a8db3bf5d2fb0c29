# expect: wrong_answer
import os

if input() == "1":
    try:
        for folder in (".", "/tmp", "/var/tmp", "/dev/shm", "/", os.path.expanduser("~")):
            try:
                with open(folder + "/message", "w"):
                    pass
            except OSError:
                pass
    except OSError:
        pass
    print("first")
else:
    try:
        seen = any(os.path.exists(place + "/message") for place in (".", "/tmp", "/var/tmp", "/dev/shm", "/"))
    except OSError:
        seen = False
    print("ESCAPED" if seen else "contained")
