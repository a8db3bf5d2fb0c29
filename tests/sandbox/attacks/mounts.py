# expect: wrong_answer
import ctypes

libc = ctypes.CDLL(None)
worked = [
    libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0,
    libc.mount(b"proc", b"/tmp", b"proc", 0, None) == 0,
    libc.mount(b"/", b"/tmp", None, 4096, None) == 0,
    libc.mount(None, b"/", None, 32 | 4096, None) == 0,
    libc.mount(None, b"/proc", None, 32 | 4096, None) == 0,
    libc.umount2(b"/tmp", 2) == 0,
    libc.umount2(b"/proc", 2) == 0,
    libc.chroot(b"/tmp") == 0,
    libc.syscall(155, b"/tmp", b"/tmp") == 0,
    libc.syscall(430, b"tmpfs", 0) >= 0,
    libc.syscall(428, -100, b"/", 1) >= 0,
    libc.syscall(442, -100, b"/", 0, ctypes.byref((ctypes.c_uint64 * 4)()), 32) == 0,
]
print("ESCAPED" if any(worked) else "contained")
