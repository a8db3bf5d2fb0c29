# expect: wrong_answer
import os

seen = []
for place in ("/etc/passwd", "/etc/shadow", "/home", "/root/.ssh", "/run", "/sys", "/var/run/docker.sock"):
    for way in ("", "/proc/1/root", "/proc/self/root", "../../../../.."):
        try:
            os.stat(way + place)
            seen.append(place)
        except OSError:
            pass
print("ESCAPED" if seen else "contained")
