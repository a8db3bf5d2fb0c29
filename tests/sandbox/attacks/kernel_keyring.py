# expect: sandbox_violation
import ctypes

ctypes.CDLL(None).syscall(250, 0, -3, 1)
print("ESCAPED")
