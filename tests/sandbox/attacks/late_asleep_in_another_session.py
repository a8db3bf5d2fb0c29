# expect: time_limit
import os
import time

if os.fork():
    os.wait()
else:
    os.setsid()
    time.sleep(30)
    print("ESCAPED")
