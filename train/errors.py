"""Why a run cannot begin or go on. Each message says what is wrong and what to do; what was saved stays good."""


class RunError(Exception):
    """The base of them all. SamplerError, SandboxError and CurateError are raised beside them."""


class ConfigError(RunError):
    """The configuration cannot be used."""


class RolloutError(RunError):
    """A batch cannot be had, or not in time, or nothing can be learnt from it."""


class LearnerError(RunError):
    """The learner cannot load a model, or an update would have ruined it."""


class ParityError(RunError):
    """Sampler and trainer are not the same model any more."""


class CheckpointError(RunError):
    """A checkpoint cannot be written or read."""


class NoRunError(RunError):
    """There is nothing to draw or to tell: no run in the folder, or one that has not come far enough."""
