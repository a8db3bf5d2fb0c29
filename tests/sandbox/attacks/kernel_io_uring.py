# expect: sandbox_violation
import ctypes

ctypes.CDLL(None).syscall(425, 4, 0)
print("ESCAPED")
