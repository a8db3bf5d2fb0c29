"""A process that makes steps with a journal and is meant to be killed: journal_writer.py FOLDER SEED.

It prints "begun", then "cut VERSION DIGEST" for each batch that may be trained on, and saves a checkpoint (the number
of the step) after every third. Started again, it continues from there.
"""

import hashlib
import random
import sys
from pathlib import Path

import fleet
from fleet import Worker, publish

from train.asynchronous.dispatcher import ControllerSettings
from train.asynchronous.journal import RunJournal

STEPS = 30
SETTINGS = ControllerSettings(
    prompts_per_batch=3, completions_per_prompt=2, total_steps=STEPS, max_tokens=8, max_staleness=2
)


def main(folder: Path, seed: int) -> None:
    saved = folder / "checkpoint"
    step, position = map(int, saved.read_text().split()) if saved.exists() else (0, 0)
    controller = fleet.controller(SETTINGS, RunJournal.open(folder / "journal"), step=step, position=position)
    print("begun", flush=True)
    publish(controller, step)
    worker, rng = Worker(controller), random.Random(seed)
    while step < STEPS:
        worker.load()
        worker.ask(rng.randint(1, 12))
        if worker.leases:
            worker.finish(rng.choice(worker.leases))
        if groups := controller.try_take_batch(step):
            digest = hashlib.sha256(repr(groups).encode()).hexdigest()
            print("cut", step, digest, flush=True)
            step += 1
            publish(controller, step)
            if step % 3 == 0:
                aside = saved.with_suffix(".part")
                aside.write_text(f"{step} {controller.position}")
                aside.replace(saved)
                controller.prune_journal(step)
    controller.close()


main(Path(sys.argv[1]), int(sys.argv[2]))
