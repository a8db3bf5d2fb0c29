# expect: wrong_answer
# Processes have numbers: nobody needs a list of them.
import os
import re

SECRET = re.compile(b"SECRET" + b"[0-9a-f]{32}")


def secret_of(pid):
    with open(f"/proc/{pid}/maps") as maps:
        writable = [line.split()[0].split("-") for line in maps if " rw" in line]
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for start, end in writable:
            try:
                memory.seek(int(start, 16))
                match = SECRET.search(memory.read(int(end, 16) - int(start, 16)))
            except OSError:
                continue
            if match:
                return match[0].decode()
    return None


found = None
for pid in (*range(1, 300), *range(max(1, os.getpid() - 3000), os.getpid())):
    try:
        found = found or secret_of(pid)
    except OSError:
        pass
print(found)
