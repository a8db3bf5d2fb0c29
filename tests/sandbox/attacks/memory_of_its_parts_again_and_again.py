# expect: memory_limit
import os

for _ in range(10):
    if os.fork() == 0:
        kept = []
        while True:
            kept.append(bytearray(b"x" * (10 << 20)))
    try:
        os.wait()
    except OSError:
        pass
print("ESCAPED")
