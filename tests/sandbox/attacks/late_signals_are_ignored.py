# expect: time_limit
import signal
import time

for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
end = time.process_time() + 5
while time.process_time() < end:
    try:
        while time.process_time() < end:
            pass
    except BaseException:
        pass
print("ESCAPED")
