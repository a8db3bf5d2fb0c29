# expect: wrong_answer or memory_limit or output_limit or runtime_error
import ctypes
import signal

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
libc = ctypes.CDLL(None)
for descriptor in (0, 1, 2):
    libc.fallocate(descriptor, 1, ctypes.c_long(0), ctypes.c_long(1 << 30))
print("contained")
