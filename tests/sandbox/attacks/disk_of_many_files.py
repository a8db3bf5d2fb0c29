# expect: wrong_answer
import os

made = 0
try:
    for number in range(60_000):
        os.mknod(f"file{number}")
        made += 1
except OSError:
    pass
print("ESCAPED" if made == 60_000 else "contained")
