# expect: sandbox_violation
import ctypes

ctypes.CDLL(None).syscall(304, -100, 0, 0)
print("ESCAPED")
