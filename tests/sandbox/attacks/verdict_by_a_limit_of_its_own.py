# expect: wrong_answer
# Who lowers a limit that the sandbox watches would choose the signal that it dies of.
import ctypes
import os
import resource

for pid in (0, os.getpid()):
    for kind, limit in ((resource.RLIMIT_CPU, 1), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
        try:
            resource.prlimit(pid, kind, (limit, limit))
            print("ESCAPED")
        except (OSError, ValueError):
            pass
        ctypes.CDLL(None).syscall(160, kind, ctypes.byref((ctypes.c_ulong * 2)(limit, limit)))
open("file", "w").write("x" * 10_000)
print("contained")
