"""What `curate verifier` does: join a swarm, take files, and say what they are worth."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from train.asynchronous.controller_threads import RetryPolicy
from train.asynchronous.messages import LeaseVerdict, ReleaseRequest
from train.errors import ConfigError, ControllerUnreachable, RunError
from train.sampling.model_check import check_model
from train.swarm.lease_file import max_file_bytes
from train.swarm.messages import VerificationJob, VerificationJobResponse, VerificationResult
from train.swarm.protocol.client import JoinRequired, SignedClient, join
from train.swarm.protocol.invites import read_invite
from train.swarm.settings import SwarmSettings
from train.swarm.signatures import load_or_create_key, lock_key
from train.swarm.verifier.file_verifier import FileVerifier
from train.swarm.verifier.version_prefetch import VersionPrefetcher

log = logging.getLogger(__name__)

DEFAULT_KEY = "~/.config/curate/verifier.key"
_RETRY_SECONDS = 1.0
_POLL_SECONDS = 0.2
_SHUTDOWN_SECONDS = 15.0  # for the verdict on the file in hand

MessageCallback = Callable[[str], None]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class VerifierOptions:
    """What the user says about a verifier.

    invite                 as `curate swarm invite --verifier` wrote it
    model                  a folder or a name on the Hub; empty: the run's own
    key_path               file with the verifier's key; made if it is not there
    retry_timeout_seconds  how long a coordinator that is gone is called again before the verifier gives up
    folder                 of the versions; None: one that all verifiers of this machine share
    """

    invite: str = field(repr=False)
    model: str = ""
    key_path: Path = Path(DEFAULT_KEY)
    retry_timeout_seconds: float = 600.0
    folder: Path | None = None


class VerifierProcess:
    """One verifier with one model in this process. `note` is called with lines about what it does.

    Raises ConfigError if the invite or the key cannot be used.
    """

    def __init__(self, options: VerifierOptions, note: MessageCallback = log.info) -> None:
        self._options = options
        self._invite = read_invite(options.invite)
        if self._invite.role != "verifier":
            raise ConfigError("this invite is for a node. For a verifier: curate swarm invite FOLDER --verifier")
        self._client = SignedClient(self._invite, load_or_create_key(options.key_path))
        self._name = self._client.node.hex()[:12]
        self._note = note
        self._leaves = threading.Event()

    def run(self) -> None:
        """Verify until the run is over, or `leave` is called.

        Raises ConfigError if another process uses the key, ControllerUnreachable when the coordinator has been away for
        too long, RunError if it refuses this verifier, TransferError if there are no weights, and SamplerError if the
        model cannot be loaded, or computes nothing any more.
        """
        with lock_key(self._options.key_path), closing(self._client):
            settings = self._patiently(self._join)
            if settings is None:
                return
            self._note(f"verifier {self._name}: has joined {settings.run}, and loads the model")
            verifier_model = self._verifier_model(settings)
            with closing(self._versions(settings)) as versions:
                versions.start()
                versions.wait_for_first(self._options.retry_timeout_seconds, lambda: self._leaves.wait(_POLL_SECONDS))
                judge = FileVerifier(settings, verifier_model, versions.fetch_files)
                while not self._leaves.is_set() and self._take_one(judge):
                    pass
            with suppress(ControllerUnreachable, RunError):  # what it has is given to others later
                self._client.call("/leave", ReleaseRequest(self._client.name), type(None))
        self._note(f"verifier {self._name}: " + ("has left" if self._leaves.is_set() else "the run is over"))

    def leave(self) -> None:
        """End after the file in hand, from any thread."""
        self._leaves.set()

    def _take_one(self, judge: FileVerifier) -> bool:
        """Judge the next file, if there is one. Returns whether the run goes on."""
        jobs = self._patiently(lambda: self._call("/job", None, VerificationJobResponse)) or VerificationJobResponse()
        if jobs.job is not None:
            self._judge(judge, jobs.job)
        elif not jobs.run_ended:
            self._leaves.wait(_RETRY_SECONDS)
        return jobs.job is not None or not jobs.run_ended

    def _judge(self, judge: FileVerifier, job: VerificationJob) -> None:
        start_time, name = time.monotonic(), str(job.lease.group)
        try:
            most = max_file_bytes(job.lease)
            content = self._patiently(lambda: self._joined(lambda: self._client.fetch(f"/file/{name}", most)))
            if content is None:
                return
            verified = judge.verify(job, content)
            self._patiently(
                lambda: self._call(f"/verdict/{name}", verified, type(None)), goodbye_seconds=_SHUTDOWN_SECONDS
            )
        except RunError as error:
            # It was started again, or has given the file to another verifier. If it refuses this one, it does so again.
            self._note(f"lease {name}: not needed any more ({error})")
            return
        self._note(f"lease {name}: {_words(verified)} in {time.monotonic() - start_time:.1f} s")

    def _verifier_model(self, settings: SwarmSettings) -> Any:
        from train.swarm.verification.verifier_model import VerifierModel

        model = self._options.model or settings.engine.model
        check_model(model)
        return VerifierModel.from_spec(replace(settings.engine, model=model))

    def _versions(self, settings: SwarmSettings) -> VersionPrefetcher:
        return VersionPrefetcher(
            self._invite,
            keep=settings.retained_versions,
            fetched=lambda version: self._note(f"verifier {self._name}: has weights {version}"),
            folder=self._options.folder,
        )

    def _join(self) -> SwarmSettings:
        return join(self._client, engine=_engine())

    def _call(self, path: str, message: Any, kind: Any) -> Any:
        return self._joined(lambda: self._client.call(path, message, kind))

    def _joined(self, call: Callable[[], Result]) -> Result:
        """Return the result of a call. A coordinator that was started again wants this verifier to join first."""
        try:
            return call()
        except JoinRequired as error:
            log.info("%s", error)
        self._join()
        return call()

    def _patiently(self, call: Callable[[], Result], *, goodbye_seconds: float = 0.0) -> Result | None:
        """Call again while the coordinator is away. Returns None if this verifier leaves before it is back.

        goodbye_seconds  how long it is called again even then
        """
        until: float | None = None

        def pause(seconds: float) -> bool:
            nonlocal until
            if not self._leaves.wait(seconds):
                return True
            until = until or time.monotonic() + goodbye_seconds
            time.sleep(min(seconds, goodbye_seconds))
            return time.monotonic() < until

        return RetryPolicy(self._options.retry_timeout_seconds, pause).call_with_retries(call)


def _engine() -> str:
    """Return the engine and the device in words. The bars are chosen by the first."""
    import torch
    import transformers

    return f"transformers {transformers.__version__} {'cuda' if torch.cuda.is_available() else 'cpu'}"


def _words(verified: VerificationResult) -> str:
    verdict: LeaseVerdict = verified.verdict
    n_tokens = int(verified.figures.get("tokens", 0))
    words = verdict.outcome if verdict.outcome == "accepted" else f"{verdict.outcome} ({verdict.reason})"
    return f"{words}, {n_tokens} tokens" if n_tokens else words
