# expect: time_limit
# The kernel adds the time of children that nobody waits for to no one: only a cgroup has seen it.
import os
import signal
import time

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in range(4):
    if os.fork() == 0:
        end = time.process_time() + 0.5
        while time.process_time() < end:
            pass
        os._exit(0)
try:
    os.wait()
except ChildProcessError:
    print("ESCAPED")
