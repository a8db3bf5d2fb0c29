"""The process that makes one evaluation of a run with an engine of its own; ProcessBackend (process_backend.py) starts
it.

    python -m train.run.evaluation_process RUN/evaluations/.pending/step-000120

It ends with the run: when the trainer is gone, its end of the pipe to this one's standard input is closed, however it
died. A run that is resumed goes on with the evaluation, and finds the GPUs free.
"""

import os
import signal
import sys
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from train.config import Config, WorkersConfig


def main(folder: Path) -> None:
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    from curate.errors import CurateError  # only now, since these take long to import
    from sandbox import SandboxError
    from train.errors import TrainError
    from train.run.pending_evaluation import PendingEvaluation, evaluate_suites, read_suites
    from train.sampling.engine_spec import clear_trainer_environment
    from train.sampling.open_engine import open_engine

    clear_trainer_environment()
    pending, config = PendingEvaluation.read(folder)
    try:
        suites = read_suites(config)
        with closing(open_engine(engine_configuration(config, pending.model_folder))) as sampler:
            evaluate_suites(config, suites, sampler, pending)
    except (CurateError, SandboxError, TrainError, OSError) as error:
        sys.stderr.write(f"Error: {error}\n")
        sys.exit(1)


def engine_configuration(config: Config, model: Path) -> Config:
    """Return the configuration of a run whose engine would be the one that evaluates.

    model: folder of the weights to evaluate
    """
    settings = config.evaluation
    engine = replace(
        config.engine,
        gpus=settings.gpus,
        tensor_parallel=settings.tensor_parallel,
        memory_share=settings.memory_share,
        max_model_len=0,  # that of the run may be too short for evaluation.max_tokens
        transfer="auto",
    )
    return replace(
        config,
        model=replace(config.model, path=str(model)),
        engine=engine,
        rollout=replace(config.rollout, pipeline="sync"),
        workers=WorkersConfig(),
        evaluation=replace(settings, where="inside", gpus=(), tensor_parallel=1),
    )


def _end_with_parent() -> None:
    while os.read(0, 1024):  # not through sys.stdin, whose lock would be missing when the interpreter ends
        pass
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)  # with the processes that vLLM has for the GPUs of one engine
    os._exit(1)  # the engine may be in the midst of a step that takes long


if __name__ == "__main__":
    main(Path(sys.argv[1]))
