# expect: wrong_answer
import os

opened = False
for path in (
    "sysrq-trigger",
    "sys/kernel/core_pattern",
    "sys/vm/overcommit_memory",
    "kcore",
    "kallsyms",
    "keys",
    "1/mem",
    "self/loginuid",
    "self/attr/exec",
    "self/uid_map",
    "timer_list",
    "modules",
    "net/tcp",
):
    for mode in (os.O_RDONLY, os.O_WRONLY):
        try:
            os.open(f"/proc/{path}", mode)
            opened = opened or mode == os.O_WRONLY or not path.startswith("self")
        except OSError:
            pass
print("ESCAPED" if opened else "contained")
