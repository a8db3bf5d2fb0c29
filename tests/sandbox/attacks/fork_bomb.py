# expect: wrong_answer or runtime_error or memory_limit or time_limit
import os
import time

end = time.monotonic() + 1
while time.monotonic() < end:
    try:
        os.fork()
    except OSError:
        time.sleep(0.1)
print("contained")
