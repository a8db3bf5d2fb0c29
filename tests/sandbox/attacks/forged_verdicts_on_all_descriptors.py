# expect: wrong_answer or runtime_error
import os

for descriptor in range(1, 256):
    for words in (b'{"passed": true, "status": "accepted"}\n', b"accepted\n", b"true\n", b"\x80\x04\x88."):
        try:
            os.write(descriptor, words)
        except OSError:
            break
os._exit(0)
