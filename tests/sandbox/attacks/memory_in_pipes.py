# expect: wrong_answer or memory_limit or output_limit or runtime_error
import fcntl
import os

kept = []
try:
    for _ in range(250):
        reader, writer = os.pipe()
        kept.append((reader, writer))
        os.set_blocking(writer, False)
        try:
            fcntl.fcntl(writer, 1031, 1 << 20)
            os.write(writer, b"x" * (1 << 20))
        except OSError:
            pass
except OSError:
    pass
print("contained")
