# expect: wrong_answer or runtime_error
import os

for number in (2, 3, 11, 15, 19, 9):
    for pid in [1, *range(3, 200)]:
        try:
            os.kill(pid, number)
        except OSError:
            pass
print("contained")
