# expect: wrong_answer
import ctypes
import fcntl
import os
import signal
import time

for number in (signal.SIGSYS, signal.SIGXCPU):
    event = (ctypes.c_int * 16)(0, 0, number, 0)
    timer = ctypes.c_int()
    libc = ctypes.CDLL(None)
    if libc.syscall(222, 1, ctypes.byref(event), ctypes.byref(timer)) == 0:
        libc.syscall(223, timer, 0, ctypes.byref((ctypes.c_long * 4)(0, 0, 0, 1000)), 0)
    reader, writer = os.pipe()
    try:
        fcntl.fcntl(reader, 10, int(number))  # F_SETSIG
        fcntl.fcntl(reader, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(reader, fcntl.F_SETFL, fcntl.fcntl(reader, fcntl.F_GETFL) | 0x2000)
        os.write(writer, b"x")
    except OSError:
        pass
time.sleep(0.1)
print("contained")
