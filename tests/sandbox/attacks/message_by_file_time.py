# expect: wrong_answer
import os

if input() == "1":
    try:
        for path in ("/dev/null", "/", os.__file__):
            try:
                os.utime(path, (77, 77))
            except OSError:
                pass
    except OSError:
        pass
    print("first")
else:
    try:
        seen = any(os.stat(path).st_mtime == 77 for path in ("/dev/null", "/", os.__file__))
    except OSError:
        seen = False
    print("ESCAPED" if seen else "contained")
