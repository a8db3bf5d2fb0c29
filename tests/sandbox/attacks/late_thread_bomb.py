# expect: time_limit
import threading


def forever() -> None:
    while True:
        pass


try:
    while True:
        threading.Thread(target=forever, daemon=True).start()
except RuntimeError:
    forever()
