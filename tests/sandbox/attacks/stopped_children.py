# expect: wrong_answer
import os
import signal

for _ in range(40):
    if os.fork() == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
print("contained")
