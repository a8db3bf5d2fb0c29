# expect: sandbox_violation
import ctypes

ctypes.CDLL(None).syscall(323, 0)
print("ESCAPED")
