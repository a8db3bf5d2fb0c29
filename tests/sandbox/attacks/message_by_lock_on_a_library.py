# expect: wrong_answer
import fcntl
import os
import time

library = open(os.__file__)
try:
    fcntl.flock(library, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    print("ESCAPED")
except OSError:
    print("contained")
else:
    print("contained")
if os.fork() == 0:
    time.sleep(5)
