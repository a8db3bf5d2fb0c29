# expect: wrong_answer or runtime_error
# No cgroup is charged for a lock.
import fcntl
import struct

taken = 0
try:
    with open("file", "w") as file:
        for start in range(100_000):
            for command in (fcntl.F_SETLK, 37):  # of the process, of the open file
                fcntl.fcntl(file, command, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 2 * start, 1, 0))
                taken += 1
except OSError:
    pass
try:
    with open("other", "w") as file:
        for start in range(100_000):
            fcntl.lockf(file, fcntl.LOCK_EX, 1, 2 * start)
            taken += 1
except OSError:
    pass
print("ESCAPED" if taken > 20_000 else "contained")
