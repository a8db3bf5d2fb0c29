# expect: wrong_answer or memory_limit or output_limit or runtime_error
import socket

kept = []
try:
    for _ in range(200):
        one, other = socket.socketpair()
        kept.append((one, other))
        one.setblocking(False)
        try:
            while True:
                one.send(b"x" * 65536)
        except BlockingIOError:
            pass
except OSError:
    pass
print("contained")
