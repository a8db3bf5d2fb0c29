# expect: wrong_answer or runtime_error
# Devices are the machine's own files, which all runs have open.
import fcntl
import struct

input()
escaped = 0
for name in ("/dev/null", "/dev/zero", "/usr/bin/python3"):
    for command in (fcntl.F_GETLK, fcntl.F_SETLK):
        try:
            with open(name, "rb") as file:
                fcntl.fcntl(file, command, struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, 0, 1, 0))
            escaped += 1
        except OSError:
            pass
print("ESCAPED" if escaped else "contained")
