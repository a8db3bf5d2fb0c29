"""A worker in a process of its own on the trainer's machine; LocalWorkers (local_workers.py) starts it.

    python -m train.asynchronous.local_worker_main URL NAME

It is `curate rollout`, but it ends with the process that started it: when that process is gone, its end of the pipe to
this one's standard input is closed, however it died. A run that is resumed must find its GPUs free.
"""

import os
import sys
import threading

from train.errors import TrainError

_TOKEN_VARIABLE = "CURATE_TOKEN"


def main(url: str, name: str) -> None:
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    from train.asynchronous.rollout_process import (  # only now, since it takes long to import
        RolloutOptions,
        RolloutProcess,
    )

    try:
        RolloutProcess(RolloutOptions(url, name=name, token=os.environ.get(_TOKEN_VARIABLE) or None), note=_note).run()
    except TrainError as error:
        _note(f"Error: {error}")
        sys.exit(1)


def _note(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _end_with_parent() -> None:
    while os.read(0, 1024):  # not through sys.stdin, whose lock would be missing when the interpreter ends
        pass
    os._exit(1)  # the engine may be in the midst of a step that takes long


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
