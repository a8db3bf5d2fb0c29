# expect: time_limit
import os
import signal
import time

if os.fork() == 0:
    for _ in range(300):
        os.kill(os.getppid(), signal.SIGSTOP)
        time.sleep(0.05)
        os.kill(os.getppid(), signal.SIGCONT)
        time.sleep(0.05)
    os._exit(0)
time.sleep(30)
print("ESCAPED")
