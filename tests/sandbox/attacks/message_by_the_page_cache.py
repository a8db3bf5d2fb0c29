# expect: wrong_answer
# What is in memory of a file of the library tells who has read it, and whoever can throw it out can write.
import ctypes
import mmap
import os

library = os.open(os.__file__, os.O_RDONLY)
size = os.fstat(library).st_size
libc = ctypes.CDLL(None)
worked = []
try:
    worked.append(os.preadv(library, [bytearray(4096)], size - 4096, 8) >= 0)  # RWF_NOWAIT
except OSError:
    pass
pages = mmap.mmap(library, size, mmap.MAP_PRIVATE)
address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
vector = (ctypes.c_char * (size // 4096 + 1))()
worked.append(libc.syscall(27, ctypes.c_ulong(address), ctypes.c_ulong(size), vector) == 0)
worked.append(libc.syscall(451, library, ctypes.byref((ctypes.c_ulong * 2)()), vector, 0) == 0)
os.posix_fadvise(library, 0, 0, os.POSIX_FADV_DONTNEED)
for advice in (12, 25, 100, 101):
    worked.append(libc.madvise(ctypes.c_ulong(address & ~4095), ctypes.c_ulong(4096), advice) == 0)
print("ESCAPED" if any(worked) else "contained")
