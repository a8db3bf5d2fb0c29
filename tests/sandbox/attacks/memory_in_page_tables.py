# expect: wrong_answer or memory_limit or output_limit or runtime_error
import mmap

kept = mmap.mmap(-1, 300 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)
for page in range(0, 300 << 30, 1 << 21):
    kept[page]
print("contained")
