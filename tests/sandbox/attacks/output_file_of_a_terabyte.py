# expect: wrong_answer or output_limit or runtime_error
import os

for size in (1 << 24, 1 << 30, 1 << 40):
    try:
        os.ftruncate(1, size)
    except OSError:
        pass
os._exit(0)
