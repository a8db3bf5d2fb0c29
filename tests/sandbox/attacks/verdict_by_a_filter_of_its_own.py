# expect: wrong_answer
import ctypes
import struct

code = struct.pack("HBBI", 6, 0, 0, 0x80000000)  # every call kills
buffer = ctypes.create_string_buffer(code, len(code))
filters = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 1, ctypes.addressof(buffer)), 16)
libc = ctypes.CDLL(None)
libc.prctl(22, 2, filters, 0, 0)
libc.syscall(317, 1, 0, filters)
libc.prctl(22, 1, 0, 0, 0)
print("contained")
