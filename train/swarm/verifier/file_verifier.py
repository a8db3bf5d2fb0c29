"""The checks of a file, in their order: the cheap ones first."""

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from blake3 import blake3
from msgspec.structs import replace

from train.asynchronous.messages import Lease, LeaseVerdict
from train.errors import SamplerError, TransferError
from train.sampling.protocol import SampledCompletion
from train.swarm.lease_file import read_lease_file
from train.swarm.messages import VerificationJob, VerificationResult
from train.swarm.settings import SwarmSettings
from train.swarm.verification.threshold_checks import thresholds_for
from train.swarm.verification.verdicts import verdict_on_completions

if TYPE_CHECKING:
    from train.swarm.verification.distances import Recomputation
    from train.swarm.verification.verifier_model import VerifierModel

log = logging.getLogger(__name__)

_PROMPT, _ANSWER = (1, 2, 3), (4, 5)  # any tokens: what is computed of them has to be numbers


class FileVerifier:
    """Judges one file at a time.

    verifier_model  the model of the run
    files_of        returns the files of a version; raises TransferError
    """

    def __init__(
        self, settings: SwarmSettings, verifier_model: "VerifierModel", files_of: Callable[[int], Sequence[Path]]
    ) -> None:  # fmt: skip
        # A token that the model does not have would end what a GPU computes for this process, once and for all.
        self._settings = replace(settings, vocab_size=min(settings.vocab_size, verifier_model.vocabulary))
        self._verifier_model, self._files_of = verifier_model, files_of
        self._loaded: int | None = None

    def verify(self, job: VerificationJob, content: bytes) -> VerificationResult:
        """Return the verdict on a file. The outcome "unknown" says that the fault is on this side.

        Raises SamplerError if this verifier cannot compute any more, so that it does not call everything unknown.
        """
        try:
            verified = self._judged(job, content)
        except TransferError as error:
            log.warning("%s", error)
            return VerificationResult(LeaseVerdict("unknown", "no weights"))
        except Exception:  # a file must not end the verifier, whatever it does to torch; nothing is known about it then
            log.exception("a check has failed; the answers to lease %d stay unknown", job.lease.group)
            verified = VerificationResult(LeaseVerdict("unknown", "crashed"))
        if verified.verdict.reason == "crashed":
            self._check_itself()
        return verified

    def _judged(self, job: VerificationJob, content: bytes) -> VerificationResult:
        if len(content) != job.n_bytes or blake3(content).digest() != job.blake3:
            return VerificationResult(
                LeaseVerdict("unknown", "digest")
            )  # the coordinator has checked it, so it was damaged since
        lease = job.lease
        completions = read_lease_file(content, lease, self._settings)
        if isinstance(completions, LeaseVerdict):
            return VerificationResult(completions)
        thresholds = thresholds_for(self._settings, job.engine)
        views, ends = self._views(completions, lease), self._verifier_model.ends
        return verdict_on_completions(completions, lease, views, thresholds, self._settings, ends=ends)

    def _views(self, completions: Sequence[SampledCompletion], lease: Lease) -> Iterator["Recomputation"]:
        """Compute what the answers should be. Nothing is loaded before the first view is asked for."""
        version = lease.version
        if self._loaded != version:
            files, self._loaded = self._files_of(version), None
            self._verifier_model.load(files)
            self._loaded = version
        yield from self._verifier_model.recompute_lease(completions, lease)

    def _check_itself(self) -> None:
        self._loaded = None
        try:
            is_fine = self._verifier_model.recompute(_PROMPT, _ANSWER, 1.0, 0).is_finite
        except Exception as error:  # torch has many; any of them means that the verifier is of no use
            raise SamplerError(f"this verifier cannot compute any more: {error}. Start it again.") from error
        if not is_fine:
            raise SamplerError("this verifier computes NaN or infinities. Start it again, on another GPU if need be.")
