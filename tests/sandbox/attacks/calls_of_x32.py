# expect: sandbox_violation
import ctypes

ctypes.CDLL(None).syscall(39 | 0x40000000)
print("ESCAPED")
