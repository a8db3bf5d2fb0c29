"""The errors of this package, and remedies for failed writes to disk.

Training runs raise RunErrors, engines and model servers SamplerErrors. Callers must also expect SandboxError and
CurateError from the packages below. Files saved before an error stay valid.
"""

import errno
import re


class TrainError(Exception):
    """Base of all errors of this package. A message states the failure and what to do."""


class RunError(TrainError):
    """A training run cannot start or continue."""


class ConfigError(RunError):
    """The configuration cannot be used."""


class RolloutError(RunError):
    """A batch cannot be collected, is not complete in time, or has no learning signal."""


class LearnerError(RunError):
    """The learner cannot load, update or write a model."""


class UpdateError(LearnerError):
    """The loss or gradient of an update is not finite. All ranks skipped the update, so the weights are unchanged."""


class ParityError(RunError):
    """Sampler and learner disagree on the log-probabilities of the same tokens."""


class CheckpointError(RunError):
    """A checkpoint cannot be written or read."""


class NoRunError(RunError):
    """The folder holds no run, or its run lacks the needed steps, weights or evaluations."""


class TransferError(TrainError):
    """Weights cannot be published or fetched. Engines keep the weights that they have."""


class ControllerUnreachable(TrainError):
    """The run's controller is unreachable. Workers retry until the deadline set by --patience."""


class CallDeferred(ControllerUnreachable):
    """HTTP 409 or 429 from the coordinator, for example to a suspended node. Nodes retry without a deadline."""


class SamplerError(TrainError):
    """Sampling failed. Earlier samples stay valid."""


_REMEDIES = {
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "Make the folder writable"),
    errno.EMFILE: "Allow more open files (ulimit -n)",
    errno.ENFILE: "Close other programs that hold files open",
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "Make room"),
}
_NUMBER = re.compile(r"(?:Errno|os error) (\d+)")  # errno in messages of Python and of Rust libraries


def suggest_remedy(error: BaseException) -> str:
    """Return advice without a final period, such as "Make room", for an OSError or for an error that quotes one."""
    number = _NUMBER.search(str(error))
    return _REMEDIES.get(int(number[1]), "Correct that") if number else "Make room"
