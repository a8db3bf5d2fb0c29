# expect: wrong_answer
import fcntl
import os
import time

for _ in range(8):
    if os.fork() == 0:
        with open(f"file{os.getpid()}", "w") as file:
            while True:
                try:
                    fcntl.lockf(file, fcntl.LOCK_EX)
                    os.kill(1, 9)
                except OSError:
                    pass
time.sleep(0.1)
print("contained")
