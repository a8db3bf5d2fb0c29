# expect: wrong_answer
import ctypes
import os

libc = ctypes.CDLL(None)
libc.prctl(4, 1)  # dumpable: /proc/self is ours
worked = []
for flag in (0x10000000, 0x20000, 0x20000000, 0x40000000, 0x8000000, 0x4000000, 0x2000000, 0x80):
    worked += [flag] if libc.unshare(flag) == 0 else []
    if flag != 0x80:  # part of the exit signal in clone
        child = libc.syscall(56, flag | 17, 0, 0, 0, 0)
        if child == 0:
            os._exit(0)
        worked += [flag] if child > 0 else []
if libc.syscall(435, ctypes.byref((ctypes.c_uint64 * 11)(0x10000000, 0, 0, 0, 17)), 88) == 0:
    os._exit(0)
for name in os.listdir("/proc/self/ns"):
    for process in ("self", "1"):
        try:
            worked += [name] if libc.setns(os.open(f"/proc/{process}/ns/{name}", 0), 0) == 0 else []
        except OSError:
            pass
print("ESCAPED" if worked else "contained")
