# expect: memory_limit
import os
import time

for _ in range(8):
    if os.fork() == 0:
        kept = []
        while True:
            kept.append(b"x" * (1 << 20))
while True:
    try:
        os.wait()
    except ChildProcessError:
        time.sleep(60)
