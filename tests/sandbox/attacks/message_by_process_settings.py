# expect: wrong_answer
import os

if input() == "1":
    try:
        import resource

        os.umask(0o123)
        os.nice(19)
        resource.setrlimit(resource.RLIMIT_NOFILE, (77, 77))
    except OSError:
        pass
    print("first")
else:
    try:
        seen = os.umask(0) == 0o123 or os.nice(0) == 19 or __import__("resource").getrlimit(7)[0] == 77
    except OSError:
        seen = False
    print("ESCAPED" if seen else "contained")
