# expect: wrong_answer
import os

read = False
for process in os.listdir("/proc"):
    if process.isdigit() and int(process) != os.getpid():
        for kind in ("mem", "maps", "environ", "fd/0", "root/proc/stat", "cwd/x", "auxv", "stack"):
            try:
                with open(f"/proc/{process}/{kind}", "rb") as file:
                    read = bool(file.read(1)) or read
            except OSError:
                pass
print("ESCAPED" if read else "contained")
