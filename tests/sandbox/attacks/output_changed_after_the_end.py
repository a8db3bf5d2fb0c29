# expect: wrong_answer
import mmap
import os
import time

os.write(1, b"CONTAIN\n")
output = mmap.mmap(1, 8)
if os.fork() == 0:
    time.sleep(0.05)
    while True:
        output[:] = b"ESCAPED\n"
os._exit(0)
