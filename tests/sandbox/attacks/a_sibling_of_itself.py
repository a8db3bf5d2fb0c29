# expect: wrong_answer or runtime_error
# CLONE_PARENT: the child would be the zygote's, which knows nothing of it.
import ctypes
import os
import time

if ctypes.CDLL(None).syscall(56, 0x8000 | 17, 0, 0, 0, 0) == 0:
    os._exit(0)
time.sleep(0.1)
print("contained")
