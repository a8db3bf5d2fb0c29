# expect: wrong_answer
# SIGSYS says that the filter was hit, and makes the verdict sandbox_violation; nobody else may send it.
import ctypes
import os
import signal

libc = ctypes.CDLL(None)
information = (ctypes.c_int * 32)(signal.SIGSYS, 0, -1)
tries = [
    lambda: os.kill(os.getpid(), signal.SIGSYS),
    lambda: os.kill(0, signal.SIGSYS),
    lambda: os.kill(-1, signal.SIGSYS),
    lambda: signal.raise_signal(signal.SIGSYS),
    lambda: signal.pthread_kill(__import__("threading").get_ident(), signal.SIGSYS),
    lambda: signal.pidfd_send_signal(os.pidfd_open(os.getpid()), signal.SIGSYS),
    lambda: libc.sigqueue(os.getpid(), signal.SIGSYS, 0),
    lambda: libc.syscall(129, os.getpid(), signal.SIGSYS, ctypes.byref(information)),
    lambda: libc.syscall(200, os.getpid(), signal.SIGSYS),
]
for attempt in tries:
    try:
        attempt()
    except OSError:
        pass
# A child that sends it to its parent when it ends.
if libc.syscall(56, signal.SIGSYS, 0, 0, 0, 0) == 0:
    os._exit(0)
print("contained")
