# expect: time_limit
import signal
import time

signal.alarm(0)
for timer in range(3):
    signal.setitimer(timer, 0)
end = time.process_time() + 5
while time.process_time() < end:
    try:
        while time.process_time() < end:
            pass
    except BaseException:
        pass
print("ESCAPED")
