# expect: wrong_answer
import os

for which in (os.PRIO_PROCESS, os.PRIO_PGRP, os.PRIO_USER):
    for who in (1, 1000):
        try:
            os.setpriority(which, who, 19)
        except OSError:
            pass
print("contained")
