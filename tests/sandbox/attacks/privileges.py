# expect: wrong_answer
import ctypes
import os

libc = ctypes.CDLL(None)
header = ctypes.byref((ctypes.c_uint32 * 2)(0x20080522, 0))
worked = [
    libc.setuid(0) == 0,
    libc.setresuid(0, 0, 0) == 0,
    libc.setresgid(0, 0, 0) == 0,
    libc.setgroups(1, ctypes.byref((ctypes.c_int * 1)(0))) == 0,
    libc.capset(header, ctypes.byref((ctypes.c_uint32 * 6)(1 << 21, 1 << 21, 0, 0, 0, 0))) == 0,
    libc.mlock(ctypes.create_string_buffer(32 << 20), 32 << 20) == 0,
    os.getuid() == 0,
    libc.setpriority(0, 0, -5) == 0,
    libc.sched_setscheduler(0, 1, ctypes.byref(ctypes.c_int(1))) == 0,
    libc.syscall(251, 1, 0, 1 << 13) == 0,  # ioprio_set, real time
    libc.syscall(314, 0, ctypes.byref((ctypes.c_uint64 * 6)(48 | 6 << 32, 0, 0, 10**7, 10**8, 10**8)), 0) == 0,
]
with open("/proc/self/status") as file:
    status = dict(line.strip().split(":\t") for line in file if line.startswith(("Cap", "NoNew", "Seccomp:")))
worked += [int(status[name], 16) != 0 for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb")]
worked += [status["NoNewPrivs"] != "1", status["Seccomp"] != "2"]
for policy in (os.SCHED_FIFO, os.SCHED_RR):
    try:
        os.sched_setscheduler(0, policy, os.sched_param(1))
        worked.append(os.sched_getscheduler(0) == policy)
    except OSError:
        pass
print("ESCAPED" if any(worked) else "contained")
