# expect: wrong_answer
# The zygote's calls carry a number in a register; no page of machine code that nobody's file has may hold it still.
import ctypes

with open("/proc/self/maps") as maps:
    pages = [line.split() for line in maps]
left = [page for page in pages if "x" in page[1] and page[4] == "0" and page[-1] not in ("[vdso]", "[vsyscall]")]
libc = ctypes.CDLL(None)
libc.syscall.restype = ctypes.c_long
guessed = any(
    libc.syscall(ctypes.c_long(272), ctypes.c_long(0), *[ctypes.c_long(0)] * 4, ctypes.c_long(key)) == 0
    for key in (0, 1, -1, 0x123456789ABCDEF)
)
print("ESCAPED" if left or guessed else "contained", left)
