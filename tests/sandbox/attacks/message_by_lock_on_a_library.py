# expect: wrong_answer
import fcntl
import os
import time

library = open(os.__file__)
try:
    fcntl.flock(library, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    print("ESCAPED")
else:
    print("contained")
if os.fork() == 0:
    time.sleep(5)
