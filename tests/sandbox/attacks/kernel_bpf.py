# expect: sandbox_violation
import ctypes

ctypes.CDLL(None).syscall(321, 5, 0, 0)
print("ESCAPED")
