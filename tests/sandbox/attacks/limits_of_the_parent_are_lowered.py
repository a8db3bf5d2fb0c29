# expect: wrong_answer
import os
import resource

for pid in (1, os.getppid()):
    if pid:
        for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU, resource.RLIMIT_AS):
            try:
                resource.prlimit(pid, kind, (0, 0))
            except OSError:
                pass
print("contained")
