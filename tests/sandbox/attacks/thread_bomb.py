# expect: wrong_answer or runtime_error
import threading
import time

started = 0
try:
    for _ in range(2000):
        threading.Thread(target=time.sleep, args=(2,), daemon=True).start()
        started += 1
except RuntimeError:
    pass
print("ESCAPED" if started == 2000 else "contained")
