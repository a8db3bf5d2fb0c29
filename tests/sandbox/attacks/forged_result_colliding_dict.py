# expect: wrong_answer
import os


def attack(x):
    keys = ",".join(f"[{i * (2**61 - 1)},1]" for i in range(1, 200_000))
    os.write(3, ('{"dict":[' + keys + "]}").encode())
    os._exit(0)
