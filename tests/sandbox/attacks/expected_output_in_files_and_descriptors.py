# expect: wrong_answer
import os
import re

SECRET = re.compile(b"SECRET" + b"[0-9a-f]{32}")
found = b"nothing"
places = [os.path.join(folder, name) for folder, _, names in os.walk("/tmp") for name in names]
for process in os.listdir("/proc"):
    for kind in ("environ", "cmdline", "comm", "stat", "status", "mountinfo"):
        places.append(f"/proc/{process}/{kind}")
    places += [f"/proc/{process}/fd/{number}" for number in range(64)]
for place in places:
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK)
        match = SECRET.search(os.read(descriptor, 1 << 20))
        os.close(descriptor)
    except OSError:
        continue
    found = match[0] if match else found
for descriptor in range(256):
    try:
        match = SECRET.search(os.pread(descriptor, 1 << 20, 0))
    except OSError:
        continue
    found = match[0] if match else found
print(found.decode())
