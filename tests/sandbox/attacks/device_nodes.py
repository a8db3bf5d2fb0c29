# expect: wrong_answer
import os
import stat

made = False
for kind, major, minor in ((stat.S_IFBLK, 8, 0), (stat.S_IFCHR, 1, 1), (stat.S_IFCHR, 1, 11)):
    try:
        os.mknod(f"device{major}{minor}", kind | 0o600, os.makedev(major, minor))
        made = True
    except OSError:
        pass
for name in ("kmsg", "mem", "kvm", "fuse", "tty", "console", "net/tun", "ptmx", "loop-control"):
    made = made or os.path.exists(f"/dev/{name}")
print("ESCAPED" if made else "contained")
