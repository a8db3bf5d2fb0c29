# expect: time_limit
# A few processes at a time, none of which lives long enough to be seen.
import os
import time

if os.fork() == 0:
    while True:
        if os.fork():
            os._exit(0)
time.sleep(60)
print("ESCAPED")
