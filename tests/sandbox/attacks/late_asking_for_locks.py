# expect: time_limit
# The zygote, which measures the time, answers for each of them.
import fcntl
import os

for _ in range(3):
    os.fork()
with open(f"file{os.getpid()}", "w") as file:
    while True:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX)
        except OSError:
            pass
