# expect: wrong_answer or time_limit
import os
import time

end = time.monotonic() + 20
while time.monotonic() < end:
    if os.fork():
        os._exit(0)
print("ESCAPED")
