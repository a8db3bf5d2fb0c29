# expect: sandbox_violation
import ctypes

ctypes.CDLL(None).ptrace(0x4206, 1, 0, 0)
print("ESCAPED")
