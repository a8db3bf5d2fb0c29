# expect: wrong_answer or sandbox_violation or runtime_error
import ctypes

libc = ctypes.CDLL(None)
for option in range(3, 80):
    if option != 22:  # seccomp
        for argument in (0, 1):
            libc.prctl(option, argument, 0, 0, 0)
print("contained")
