"""The key for system calls that the seccomp filter reserves for the zygote.

The zygote, and its children until they become programs, make calls that programs may not: they mount, set limits, and
kill a whole run. A second filter for programs would cost each run 0.2 ms. So a single filter allows such calls with the
key, a random number in the sixth argument register, which the kernel ignores.

The key exists only in the machine code for the calls, on a page that a child unmaps before it becomes a program. It is
never in a Python object or on the stack, so the program's memory contains no copy.
"""

import ctypes
import mmap
import os

_libc = ctypes.PyDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.getrandom.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint]
_libc.getrandom.restype = ctypes.c_ssize_t
_Call = ctypes.PYFUNCTYPE(ctypes.c_long, *[ctypes.c_long] * 6)

BYTES = 8
# Machine code of long call(long number, long a, long b, long c, long d, long e), before and after the key. A process
# from clone with a new stack returns to the address on top of that stack.
_CODE = {
    "x86_64": (
        "4889f8"  # mov rax, rdi
        "4889f7"  # mov rdi, rsi
        "4889d6"  # mov rsi, rdx
        "4889ca"  # mov rdx, rcx
        "4d89c2"  # mov r10, r8
        "4d89c8"  # mov r8, r9
        "49b9",  # mov r9, key
        "0f05"  # syscall
        "4d31c9"  # xor r9, r9
        "c3",  # ret
    ),
    "aarch64": (
        "e80300aa"  # mov x8, x0
        "e00301aa"  # mov x0, x1
        "e10302aa"  # mov x1, x2
        "e20303aa"  # mov x2, x3
        "e30304aa"  # mov x3, x4
        "e40305aa"  # mov x4, x5
        "ea030091"  # mov x10, sp
        "05010058"  # ldr x5, key
        "010000d4"  # svc 0
        "e9030091"  # mov x9, sp
        "3f010aeb"  # cmp x9, x10
        "40000054"  # b.eq over the ldr
        "fe0340f9"  # ldr x30, [sp]
        "e5031faa"  # mov x5, xzr
        "c0035fd6",  # ret; the key follows
        "",
    ),
}


def _map_memory(length: int) -> tuple[mmap.mmap, int]:
    memory = mmap.mmap(-1, length, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return memory, ctypes.addressof(ctypes.c_char.from_buffer(memory))


class SyscallKey:
    """A random key for reserved system calls, and the code that makes them. Raises OSError.

    Raises KeyError for machines other than x86_64 and aarch64.
    """

    def __init__(self) -> None:
        before, after = (bytes.fromhex(code) for code in _CODE[os.uname().machine])
        page, start = _map_memory(mmap.PAGESIZE)
        self._address = start + len(before)
        ctypes.memmove(start, before, len(before))
        ctypes.memmove(self._address + BYTES, after, len(after))
        if _libc.getrandom(self._address, BYTES, 0) != BYTES:
            raise OSError(ctypes.get_errno(), "getrandom")
        if _libc.mprotect(start, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")
        # call(number, *five_arguments) makes a system call with the key; returns the kernel's result or minus errno.
        self.call = _Call(start)
        self.destroy = page.close

    def embed(self, code: bytes, halves: list[tuple[int, int]]) -> tuple[mmap.mmap, int]:
        """Copy `code` to new memory and insert the key; return the memory, for the caller to close, and its address.

        halves   insertions of 4 bytes: (offset in the code, 0 for the key's lower half or 1 for the upper half)
        """
        memory, start = _map_memory(len(code))
        memory[:] = code
        for offset, half in halves:
            ctypes.memmove(start + offset, self._address + 4 * half, 4)
        return memory, start
