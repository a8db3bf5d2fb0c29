# expect: wrong_answer
import ctypes
import socket

libc = ctypes.CDLL(None)
worked = [
    (family, kind)
    for family in range(50)
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW)
    if family != socket.AF_UNIX and libc.socket(family, kind, 0) >= 0
]
try:
    socket.getaddrinfo("example.com", 80)
    worked.append("names")
except OSError:
    pass
print("ESCAPED" if worked else "contained")
