# expect: wrong_answer
import ctypes
import re

SECRET = re.compile(b"SECRET" + b"[0-9a-f]{32}")
found = b"nothing"
ctypes.CDLL(None).prctl(4, 1)  # dumpable: /proc/self is ours
with open("/proc/self/mem", "rb", 0) as memory, open("/proc/self/maps") as maps:
    for line in maps.read().splitlines():
        place, rights = line.split()[:2]
        low, high = (int(end, 16) for end in place.split("-"))
        if not rights.startswith("r") or high - low > 1 << 26:
            continue
        try:
            memory.seek(low)
            match = SECRET.search(memory.read(high - low))
        except (OSError, ValueError, OverflowError):
            continue
        if match:
            found = match[0]
print(found.decode())
