"""The checks of a file, in their order: the cheap ones first."""

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from blake3 import blake3
from msgspec.structs import replace

from train.errors import SamplerError, TransferError
from train.swarm.calls import Job, Verified
from train.swarm.files.reading import read
from train.swarm.files.rows import RolloutFile
from train.swarm.files.trial import try_reading
from train.swarm.settings import SwarmSettings
from train.swarm.verdict import Verdict
from train.swarm.verification.checking import check
from train.swarm.verification.choice import bars_of

if TYPE_CHECKING:
    from train.swarm.verification.prefill import Prefill
    from train.swarm.verification.view import View

log = logging.getLogger(__name__)

_PROMPT, _ANSWER = (1, 2, 3), (4, 5)  # any tokens: what is computed of them has to be numbers


class Judge:
    """Judges one file at a time.

    prefill   the model of the run
    files_of  returns the files of a version; raises TransferError
    """

    def __init__(
        self, settings: SwarmSettings, prefill: "Prefill", files_of: Callable[[int], Sequence[Path]]
    ) -> None:  # fmt: skip
        # A token that the model does not have would end what a GPU computes for this process, once and for all.
        self._settings = replace(settings, vocabulary=min(settings.vocabulary, prefill.vocabulary))
        self._prefill, self._files_of = prefill, files_of
        self._loaded: int | None = None

    def judge(self, job: Job, content: bytes) -> Verified:
        """Return the verdict on a file. The outcome "unknown" says that the fault is on this side.

        Raises SandboxError or SamplerError if this verifier cannot read files or compute any more, so that it does not
        call everything unknown.
        """
        try:
            verified = self._judged(job, content)
        except TransferError as error:
            log.warning("%s", error)
            return Verified(Verdict("unknown", "no weights"))
        except Exception:  # a file must not end the verifier, whatever it does to torch; nothing is known about it then
            log.exception("a check has failed; the file of lease %s stays unknown", job.lease.id.hex())
            verified = Verified(Verdict("unknown", "crashed"))
        if verified.verdict.reason == "crashed":
            self._check_itself()
        return verified

    def _judged(self, job: Job, content: bytes) -> Verified:
        if len(content) != job.n_bytes or blake3(content).digest() != job.blake3:
            return Verified(Verdict("unknown", "digest"))  # the coordinator has checked it, so it was damaged since
        file = read(content, job.lease, self._settings)
        if isinstance(file, Verdict):
            return Verified(file)
        bars = bars_of(self._settings, job.engine)
        return check(file, job.lease, self._views(file, job), bars, self._settings, ends=self._prefill.ends)

    def _views(self, file: RolloutFile, job: Job) -> Iterator["View"]:
        """Compute what the answers should be. Nothing is loaded before the first view is asked for."""
        version = job.lease.lease.version
        if self._loaded != version:
            files, self._loaded = self._files_of(version), None
            self._prefill.load(files)
            self._loaded = version
        yield from self._prefill.views(file, job.lease.lease)

    def _check_itself(self) -> None:
        try_reading()
        self._loaded = None
        try:
            is_fine = self._prefill.look(_PROMPT, _ANSWER, 1.0, 0).is_finite
        except Exception as error:  # torch has many; any of them means that the verifier is of no use
            raise SamplerError(f"this verifier cannot compute any more: {error}. Start it again.") from error
        if not is_fine:
            raise SamplerError("this verifier computes NaN or infinities. Start it again, on another GPU if need be.")
