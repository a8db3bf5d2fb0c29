# expect: wrong_answer or runtime_error
import ctypes
import time

if ctypes.CDLL(None).syscall(56, 0x8000, 0, 0, 0, 0) == 0:
    time.sleep(30)
time.sleep(0.1)
print("contained")
