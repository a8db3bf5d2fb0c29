# expect: wrong_answer
# Contexts of asynchronous reading, of which the machine has 65,536; leases, notices of directories, huge pages, names
# of mappings, programs that filter sockets, owners of files, larger pipes.
import ctypes
import fcntl
import mmap
import os
import socket
import struct

libc = ctypes.CDLL(None)
libc.syscall.restype = ctypes.c_long
libc.mmap.restype = ctypes.c_long
context = ctypes.c_ulong()
own, other = socket.socketpair()
reader, writer = os.pipe()
folder = os.open(".", os.O_RDONLY)
file = os.open("file", os.O_RDWR | os.O_CREAT)
memory = mmap.mmap(-1, 4096)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))


def works(call, *arguments):
    try:
        return call(*arguments) is not False
    except OSError:
        return False


worked = [
    libc.syscall(206, 64, ctypes.byref(context)) == 0,
    libc.mmap(None, 2 << 20, 3, 0x40022, -1, 0) > 0,
    libc.syscall(319, b"x", 4) >= 0,
    libc.prctl(0x53564D41, 0, ctypes.c_ulong(address), ctypes.c_ulong(4096), b"name") == 0,
    works(own.setsockopt, socket.SOL_SOCKET, 26, struct.pack("HxxxxxxP", 1, address)),
    *[works(fcntl.fcntl, file, command, 1) for command in (1024, 8, 10, 15, 36, 37)],
    works(fcntl.fcntl, folder, 1026, 1),
    works(fcntl.fcntl, reader, 1031, 1 << 20),
    works(fcntl.ioctl, file, 0x5452, b"\1\0\0\0"),  # FIOASYNC
    works(os.setxattr, "file", "user.x", b"x" * 4000),
    libc.syscall(29, 0, 4096, 0o1600) >= 0,
    libc.syscall(222, 1, 0, ctypes.byref(context)) == 0,
]
print("ESCAPED" if any(worked) else "contained", worked)
