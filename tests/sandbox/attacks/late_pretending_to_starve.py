# expect: time_limit
# One process waits for the processor that the others keep busy; these die before anybody adds them up.
import os
import signal
import time

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
end = time.monotonic() + 8
for _ in range(3):
    if os.fork() == 0:
        while time.monotonic() < end:
            if os.fork() == 0:
                stop = time.monotonic() + 0.02
                while time.monotonic() < stop:
                    pass
                os._exit(0)
            try:
                os.wait()
            except ChildProcessError:
                pass
        os._exit(0)
if os.fork() == 0:
    os.nice(5)
    while time.monotonic() < end:
        pass
    os._exit(0)
time.sleep(6)
print("ESCAPED")
