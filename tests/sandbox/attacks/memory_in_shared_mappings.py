# expect: memory_limit
import mmap

kept = []
for _ in range(6):
    kept.append(mmap.mmap(-1, 100 << 20))
    for page in range(0, 100 << 20, 4096):
        kept[-1][page] = 1
print("ESCAPED")
