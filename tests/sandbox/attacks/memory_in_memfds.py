# expect: wrong_answer or memory_limit or output_limit or runtime_error
import os

kept = []
try:
    for _ in range(60):
        kept.append(os.memfd_create("x"))
        os.write(kept[-1], b"x" * (10 << 20))
except OSError:
    pass
print("contained")
