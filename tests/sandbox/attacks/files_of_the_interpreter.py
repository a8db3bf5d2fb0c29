# expect: wrong_answer
import os
import sys

changed = 0
for path in [os.__file__, sys.executable, "/dev/null", "/", *sys.path]:
    for change in (
        lambda p: os.close(os.open(p, os.O_WRONLY)) if p != "/dev/null" else os.stat("/nothing"),
        lambda p: os.utime(p, (1, 1)) if not p.startswith("/tmp") else os.stat("/nothing"),
        lambda p: os.rename(p, "/tmp/renamed") if not p.startswith("/tmp") else os.stat("/nothing"),
        lambda p: os.link(p, "/tmp/linked"),
        lambda p: open(os.path.join(p, "new.py"), "x").close() if p != "/tmp" else os.stat("/nothing"),
    ):
        try:
            change(path)
            changed += 1
        except OSError:
            pass
print("ESCAPED" if changed else "contained")
