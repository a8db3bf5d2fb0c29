"""The reasons why work with a model cannot begin or go on, and what to do about full or read-only disks.

Each message says what is wrong and what to do. Whatever was saved before the error stays valid. Those of a
training run are RunErrors; models and servers that answer prompts, in training and elsewhere, raise SamplerErrors.

SandboxError and CurateError, which come from the packages below, are raised beside them.
"""

import errno
import re


class TrainError(Exception):
    """The base of all errors of this package."""


class RunError(TrainError):
    """A training run cannot begin or go on."""


class ConfigError(RunError):
    """The configuration cannot be used."""


class RolloutError(RunError):
    """A batch cannot be collected, is not complete in time, or teaches nothing."""


class LearnerError(RunError):
    """The learner cannot load a model, or an update would have ruined it."""


class UpdateError(LearnerError):
    """An update would have ruined the weights. No rank has made it, so they are those from before."""


class ParityError(RunError):
    """Sampler and learner are no longer the same model."""


class CheckpointError(RunError):
    """A checkpoint cannot be written or read."""


class NoRunError(RunError):
    """The folder holds no run, or one that has not come far enough to be drawn or described."""


class TransferError(TrainError):
    """Weights cannot be published or fetched. Engines go on with those that they have."""


class ControllerUnreachable(TrainError):
    """The run's controller is unreachable. Workers retry for --patience seconds."""


class CallDeferred(ControllerUnreachable):
    """HTTP 409 or 429 from the coordinator, for example to a suspended node. Nodes retry without a deadline."""


class SamplerError(TrainError):
    """No further samples can be drawn. Those that were drawn before stay valid."""


_REMEDIES = {
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "Make the folder writable"),
    errno.EMFILE: "Allow more open files (ulimit -n)",
    errno.ENFILE: "Close other programs that hold files open",
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "Make room"),
}
_NUMBER = re.compile(r"(?:Errno|os error) (\d+)")  # Python writes one, and libraries in Rust the other


def recovery_hint(error: BaseException) -> str:
    """Return the first half of an advice, such as "Make room"; the words of the error say which error it is."""
    number = _NUMBER.search(str(error))
    return _REMEDIES.get(int(number[1]), "Correct that") if number else "Make room"
