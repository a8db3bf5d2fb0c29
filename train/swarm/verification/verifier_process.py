"""The process of `curate verifier`: it fetches files from a coordinator, and submits lease verdicts.

A verifier is trusted: the trainer uses its numbers. It never decodes tokens, and executes nothing from a file.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from blake3 import blake3
from msgspec.structs import replace

from train.asynchronous.controller_threads import RetryPolicy
from train.asynchronous.messages import Lease, LeaseVerdict, ReleaseRequest
from train.errors import ConfigError, ControllerUnreachable, RunError, SamplerError, TransferError
from train.sampling.model_check import check_model
from train.sampling.protocol import SampledCompletion
from train.swarm.broadcast.relay_client import RelayClient
from train.swarm.broadcast.relay_selector import RelaySelector
from train.swarm.broadcast.relay_source import STALL_SECONDS, VersionStore, locate_shared_folder
from train.swarm.client import JoinRequired, SignedClient, join
from train.swarm.invites import Invite, read_invite
from train.swarm.lease_file import compute_max_file_bytes, read_lease_file
from train.swarm.messages import VerificationJob, VerificationJobResponse, VerificationResult
from train.swarm.settings import SwarmSettings
from train.swarm.signatures import load_or_create_key, lock_key
from train.swarm.verification.thresholds import select_thresholds
from train.swarm.verification.verdicts import judge_completions

if TYPE_CHECKING:
    from train.swarm.verification.verifier_model import Recomputation, VerifierModel

log = logging.getLogger(__name__)

DEFAULT_KEY_PATH = "~/.config/curate/verifier.key"
_RETRY_SECONDS = 1.0
_POLL_SECONDS = 0.2
_SHUTDOWN_SECONDS = 15.0  # for the verdict on the current file
_VERSION_POLL_SECONDS = 2.0
_WAIT_SECONDS = 240.0  # for the version of a file; less than the coordinator's limit for a verdict
_PROMPT, _COMPLETION = (1, 2, 3), (4, 5)  # arbitrary tokens, to check that the model computes finite numbers

MessageCallback = Callable[[str], None]
Result = TypeVar("Result")


class FileVerifier:
    """A verifier of one file at a time.

    verifier_model  model of the run
    fetch_files     returns the files of a version; raises TransferError
    """

    def __init__(
        self, settings: SwarmSettings, verifier_model: "VerifierModel", fetch_files: Callable[[int], Sequence[Path]]
    ) -> None:  # fmt: skip
        # A token id outside the vocabulary would corrupt the CUDA context of this process.
        self._settings = replace(settings, vocab_size=min(settings.vocab_size, verifier_model.vocabulary))
        self._verifier_model, self._fetch_files = verifier_model, fetch_files
        self._loaded: int | None = None

    def verify(self, job: VerificationJob, content: bytes) -> VerificationResult:
        """Return the verdict on a file; "unknown" means that the fault is on this side.

        Raises SamplerError if the model no longer computes finite numbers.
        """
        try:
            verified = self._verify(job, content)
        except TransferError as error:
            log.warning("%s", error)
            return VerificationResult(LeaseVerdict("unknown", "no weights"))
        except Exception:  # no file may end the verifier
            log.exception("verification of lease %d failed; its verdict is unknown", job.lease.group)
            verified = VerificationResult(LeaseVerdict("unknown", "crashed"))
        if verified.verdict.reason == "crashed":
            self._check_model()
        return verified

    def _verify(self, job: VerificationJob, content: bytes) -> VerificationResult:
        if len(content) != job.n_bytes or blake3(content).digest() != job.blake3:
            return VerificationResult(LeaseVerdict("unknown", "digest"))
        lease = job.lease
        completions = read_lease_file(content, lease, self._settings)
        if isinstance(completions, LeaseVerdict):
            return VerificationResult(completions)
        thresholds = select_thresholds(self._settings.thresholds, job.engine)
        views, end_token_ids = self._recompute(completions, lease), self._verifier_model.end_token_ids
        return judge_completions(completions, lease, views, thresholds, self._settings, end_token_ids=end_token_ids)

    def _recompute(self, completions: Sequence[SampledCompletion], lease: Lease) -> Iterator["Recomputation"]:
        """Recompute the completions, lazily: load the weights when the first result is requested."""
        version = lease.version
        if self._loaded != version:
            files, self._loaded = self._fetch_files(version), None
            self._verifier_model.load(files)
            self._loaded = version
        yield from self._verifier_model.recompute_lease(completions, lease)

    def _check_model(self) -> None:
        """Raise SamplerError unless the model computes finite numbers for arbitrary tokens."""
        self._loaded = None
        try:
            is_finite = self._verifier_model.recompute(_PROMPT, _COMPLETION, 1.0, 0).is_finite
        except Exception as error:  # torch raises many types; any of them means that the verifier is unusable
            raise SamplerError(f"the model of this verifier fails: {error}. Restart it.") from error
        if not is_finite:
            raise SamplerError("this verifier computes NaN or infinities. Restart it, on another GPU if that repeats.")


class VersionPrefetcher:
    """A prefetcher of each new version to a folder shared by all verifiers of this machine.

    keep        number of most recently fetched versions to retain
    on_fetched  called with each fetched version, from another thread
    """

    def __init__(
        self, invite: Invite, *, keep: int, on_fetched: Callable[[int], None], folder: Path | None = None
    ) -> None:  # fmt: skip
        self._download = RelayClient(
            RelaySelector(invite.relays or (invite.coordinator,)), invite.run, invite.public_key
        )
        folder = folder or locate_shared_folder(invite.run, invite.public_key)
        # The store retains more versions than `_files` lists, so none is removed while being read.
        self._versions, self._keep = VersionStore(folder, self._download, keep=keep + 2), keep
        self._files: dict[int, tuple[Path, ...]] = {}  # by version, in fetching order
        self._lock = threading.Lock()  # for `_files`
        self._on_fetched = on_fetched
        self._newest = -1
        self._failure: tuple[float, TransferError] | None = None  # time of the first one in a row, and its error
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll_versions, name="versions", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def fetch_files(self, version: int) -> tuple[Path, ...]:
        """Return the files of a version, without waiting for other fetches if the version is on the disk.

        Raises TransferError if it does not arrive in time.
        """
        with self._lock:
            files = self._files.get(version)
        return files or self._fetch(version, seconds=_WAIT_SECONDS)

    def wait_for_first(self, timeout_seconds: float, should_stop: Callable[[], bool]) -> None:
        """Wait until the first version is fetched, or `should_stop` returns True.

        Raises TransferError after failures for `timeout_seconds`.
        """
        while self._newest < 0 and not should_stop():
            failure = self._failure
            if failure is not None and time.monotonic() - failure[0] > timeout_seconds:
                raise TransferError(f"there are no weights, after {timeout_seconds:.0f} s: {failure[1]}")

    def _fetch(self, version: int, **limits: float) -> tuple[Path, ...]:
        folder, manifest = self._versions.fetch(version, **limits)
        files = tuple(folder / file.name for file in manifest.weights.files)
        with self._lock:
            self._files.pop(version, None)
            self._files[version] = files
            for old in [*self._files][: -self._keep]:
                del self._files[old]
        return files

    def close(self) -> None:
        """Stop polling, and remove versions that no process of this machine reads."""
        self._stop.set()
        self._versions.close()
        self._download.close()

    def _poll_versions(self) -> None:
        last_error = ""
        while not self._stop.wait(_VERSION_POLL_SECONDS if self._newest >= 0 else _VERSION_POLL_SECONDS / 4):
            try:
                version = self._download.fetch_latest().version
                if version != self._newest:
                    self._fetch(version, stall_seconds=STALL_SECONDS)
                    self._newest, last_error = version, ""
                    self._on_fetched(version)
                self._failure = None  # only a fetch counts: relays may announce versions that they never send
            except TransferError as error:
                self._failure = self._failure or (time.monotonic(), error)
                (log.debug if str(error) == last_error else log.warning)("%s", error)
                last_error = str(error)


@dataclass(frozen=True, slots=True)
class VerifierOptions:
    """The user's options of a verifier.

    invite                 text from `curate swarm invite --verifier`
    model                  folder or Hub name; empty: the run's own
    key_path               file with the verifier's key; created if missing
    retry_timeout_seconds  deadline for retries of an unreachable coordinator
    folder                 for the versions; None for one shared by all verifiers of this machine
    """

    invite: str = field(repr=False)
    model: str = ""
    key_path: Path = Path(DEFAULT_KEY_PATH)
    retry_timeout_seconds: float = 600.0
    folder: Path | None = None


class VerifierProcess:
    """One verifier with one model in this process. note: receives lines about its progress.

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
        self._leave_event = threading.Event()

    def run(self) -> None:
        """Verify until the run ends, or `leave` is called.

        Raises ConfigError if another process uses the key, ControllerUnreachable after the retry deadline, and RunError
        if the coordinator refuses this verifier. Raises TransferError if there are no weights, and SamplerError if the
        model cannot be loaded, or no longer computes.
        """
        with lock_key(self._options.key_path), closing(self._client):
            settings = self._retry(self._join)
            if settings is None:
                return
            self._note(f"verifier {self._name}: has joined {settings.run}, and loads the model")
            verifier_model = self._load_model(settings)
            versions = VersionPrefetcher(
                self._invite,
                keep=settings.retained_versions,
                on_fetched=lambda version: self._note(f"verifier {self._name}: has weights {version}"),
                folder=self._options.folder,
            )
            with closing(versions):
                versions.start()
                versions.wait_for_first(
                    self._options.retry_timeout_seconds, lambda: self._leave_event.wait(_POLL_SECONDS)
                )
                file_verifier = FileVerifier(settings, verifier_model, versions.fetch_files)
                while not self._leave_event.is_set() and self._verify_next(file_verifier):
                    pass
            with suppress(ControllerUnreachable, RunError):  # the coordinator requeues its file after a timeout
                self._client.call("/leave", ReleaseRequest(self._client.name), type(None))
        self._note(f"verifier {self._name}: " + ("has left" if self._leave_event.is_set() else "the run is over"))

    def leave(self) -> None:
        """Shut down after the current file, from any thread."""
        self._leave_event.set()

    def _verify_next(self, file_verifier: FileVerifier) -> bool:
        """Verify the next file, if any; return whether the run continues."""
        response = self._retry(lambda: self._call("/job", None, VerificationJobResponse)) or VerificationJobResponse()
        if response.job is not None:
            self._verify(file_verifier, response.job)
        elif not response.run_ended:
            self._leave_event.wait(_RETRY_SECONDS)
        return response.job is not None or not response.run_ended

    def _verify(self, file_verifier: FileVerifier, job: VerificationJob) -> None:
        start_time, name = time.monotonic(), str(job.lease.group)
        try:
            max_bytes = compute_max_file_bytes(job.lease)
            content = self._retry(lambda: self._call_joined(lambda: self._client.fetch(f"/file/{name}", max_bytes)))
            if content is None:
                return
            verified = file_verifier.verify(job, content)
            self._retry(
                lambda: self._call(f"/verdict/{name}", verified, type(None)), seconds_after_leave=_SHUTDOWN_SECONDS
            )
        except RunError as error:
            # The coordinator restarted, or reassigned the file. After a permanent refusal, the next call fails, too.
            self._note(f"lease {name}: the verdict is no longer needed ({error})")
            return
        self._note(f"lease {name}: {_describe(verified)} in {time.monotonic() - start_time:.1f} s")

    def _load_model(self, settings: SwarmSettings) -> Any:
        from train.swarm.verification.verifier_model import VerifierModel

        model = self._options.model or settings.engine.model
        check_model(model)
        return VerifierModel.from_spec(replace(settings.engine, model=model))

    def _join(self) -> SwarmSettings:
        return join(self._client, engine=_describe_engine())

    def _call(self, path: str, message: Any, kind: Any) -> Any:
        return self._call_joined(lambda: self._client.call(path, message, kind))

    def _call_joined(self, call: Callable[[], Result]) -> Result:
        """Return the result of a call; after a restart of the coordinator, join again and repeat it."""
        try:
            return call()
        except JoinRequired as error:
            log.info("%s", error)
        self._join()
        return call()

    def _retry(self, call: Callable[[], Result], *, seconds_after_leave: float = 0.0) -> Result | None:
        """Retry a call while the coordinator is unreachable; return None if this verifier leaves first.

        seconds_after_leave: further time for retries after `leave`
        """
        until: float | None = None

        def pause(seconds: float) -> bool:
            nonlocal until
            if not self._leave_event.wait(seconds):
                return True
            until = until or time.monotonic() + seconds_after_leave
            time.sleep(min(seconds, seconds_after_leave))
            return time.monotonic() < until

        return RetryPolicy(self._options.retry_timeout_seconds, pause).call_with_retries(call)


def _describe_engine() -> str:
    import torch
    import transformers

    return f"transformers {transformers.__version__} {'cuda' if torch.cuda.is_available() else 'cpu'}"


def _describe(verification: VerificationResult) -> str:
    verdict: LeaseVerdict = verification.verdict
    n_tokens = int(verification.figures.get("n_tokens", 0))
    text = verdict.outcome if verdict.outcome == "accepted" else f"{verdict.outcome} ({verdict.reason})"
    return f"{text}, {n_tokens} tokens" if n_tokens else text
