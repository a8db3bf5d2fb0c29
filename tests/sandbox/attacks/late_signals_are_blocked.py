# expect: time_limit
import signal
import time

signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
end = time.process_time() + 5
while time.process_time() < end:
    try:
        while time.process_time() < end:
            pass
    except BaseException:
        pass
print("ESCAPED")
