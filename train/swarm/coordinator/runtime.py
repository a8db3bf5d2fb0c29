"""The process of `curate coordinator`."""

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from math import inf
from pathlib import Path

import msgspec
import uvicorn
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sandbox.http_client import HttpClient
from sandbox.service.listener import raise_descriptor_limit
from train.asynchronous.client import ControllerClient
from train.asynchronous.rollout_process import LocalFirstSource
from train.asynchronous.server import replace_wildcard
from train.bounded_http import build_bounded_config
from train.errors import ConfigError
from train.swarm.broadcast.broadcaster import Broadcaster, wait_for_engine_spec
from train.swarm.broadcast.manifest import MAX_LATEST_BYTES, build_latest_path, read_latest, sanitize_run_name
from train.swarm.broadcast.origin import Origin
from train.swarm.broadcast.relay import RelayApp, RelayRateLimiter, format_listener_url, open_listener
from train.swarm.broadcast.request import NotAvailable, RelayError, get, open_relay
from train.swarm.coordinator.app import CoordinatorApp
from train.swarm.coordinator.coordinator import Coordinator
from train.swarm.coordinator.intake import ResultStore
from train.swarm.folder import SwarmAddress, SwarmFolder, lock_folder, write_atomic
from train.swarm.ledger import Ledger
from train.swarm.requests import INCARNATION_BYTES
from train.swarm.settings import SwarmSettings, check_engine_options, check_sampling, read_settings, sign_settings
from train.swarm.signatures import BadSignature, create_key_file, public_key_bytes, read_key

log = logging.getLogger(__name__)

_HEAD_SECONDS, _RESPONSE_TIMEOUT_SECONDS, _KEEP_ALIVE_SECONDS, _STOP_SECONDS = 10.0, 120.0, 60, 3
_CONTROLLER_SECONDS = 10.0  # timeout of the trainer's replies, for which nodes wait
_FILES_PER_SECOND, _FILE_BYTES_PER_SECOND = 200.0, 1e9  # of one address
_RELAYS_SECONDS = 15.0
_POLL_SECONDS = 0.2
_SHUTDOWN_SECONDS = 30.0  # for nodes to be notified of the run's end


@dataclass(frozen=True, slots=True)
class CoordinatorOptions:
    """Options of a coordinator.

    controller  URL of the trainer
    token       the run's token, or None
    listen      HOST:PORT; port 0 selects a free port
    url         URL for nodes; empty for HOST, or this machine's name if HOST is a wildcard address
    relays      URLs for invites
    store       URL of the bucket for the weights; empty for a folder that the coordinator serves
    """

    folder: Path
    controller: str
    token: str | None
    listen: str
    url: str = ""
    relays: tuple[str, ...] = ()
    store: str = ""


def run_coordinator(
    options: CoordinatorOptions, settings_for: Callable[[ControllerClient], SwarmSettings], *,
    on_ready: Callable[[str, str], None], stop: threading.Event | None = None, note: Callable[[str], None] = log.info,
) -> None:  # fmt: skip
    """Serve until the run ends, `stop` is set, or the process gets a signal.

    settings_for  returns the settings of a new swarm; an existing one has its settings in the folder
    on_ready      called with the URLs of the coordinator and its status page
    note          receives lines about published versions, and about waiting for the trainer

    Raises ConfigError, also if another coordinator runs in the folder, and RunError.
    """
    raise_descriptor_limit()
    with (
        lock_folder(options.folder, "coordinator", "FOLDER"),
        closing(_CoordinatorProcess(options, settings_for, note)) as process,
    ):
        on_ready(process.address.coordinator, process.folder.page_url())
        process.serve(stop or threading.Event())


class _CoordinatorProcess:
    """The coordinator with its ledger, broadcaster, relay poller and HTTP server."""

    def __init__(
        self,
        options: CoordinatorOptions,
        settings_for: Callable[[ControllerClient], SwarmSettings],
        note: Callable[[str], None],
    ) -> None:
        self.folder = folder = SwarmFolder(options.folder)
        self._controller = ControllerClient(options.controller, options.token, reply_seconds=_CONTROLLER_SECONDS)
        spec = wait_for_engine_spec(self._controller, note)
        check_sampling(spec)
        check_engine_options(spec)
        run = sanitize_run_name(spec.run)
        key = read_key(folder.key_path) if folder.key_path.exists() else create_key_file(folder.key_path)
        settings = _read_or_create_settings(folder, key, run, lambda: settings_for(self._controller))
        self._failures: list[BaseException] = []
        ledger = Ledger(folder.ledger_path, key)
        self._broadcaster = Broadcaster(
            self._controller,
            LocalFirstSource(self._controller.url, self._controller.headers),
            Origin(options.store or f"file://{folder.store_path.resolve()}", run, key),
            folder.versions_path,
            get_ledger_head=lambda: ledger.head,
            note=note,
        )
        self._relays = _RelayPoller(options.relays, run, public_key_bytes(key))
        self._coordinator = Coordinator(
            settings, self._controller, key, ledger, ResultStore(folder.uploads_path),
            latest=lambda: self._broadcaster.latest, relays=self._relays.get_versions, fail=self._failures.append,
        )  # fmt: skip
        self._listener = open_listener(options.listen)
        url = format_listener_url(self._listener)
        public_url = options.url or replace_wildcard(url, socket.gethostname())
        self.address = SwarmAddress(run, public_url, replace_wildcard(url), options.relays)
        folder.write_address(self.address)
        files = RelayApp(folder.store_path, RelayRateLimiter(_FILES_PER_SECOND, _FILE_BYTES_PER_SECOND))
        app = CoordinatorApp(
            self._coordinator,
            key,
            start=os.urandom(INCARNATION_BYTES),
            files=files,
            page_token=_read_or_create_page_token(folder),
        )
        self._server = uvicorn.Server(
            build_bounded_config(
                app,
                head_seconds=_HEAD_SECONDS,
                response_seconds=_RESPONSE_TIMEOUT_SECONDS,
                keep_alive_seconds=_KEEP_ALIVE_SECONDS,
                stop_seconds=_STOP_SECONDS,
            )
        )
        self._stop = threading.Event()

    def serve(self, stop: threading.Event) -> None:
        """Serve until stopped. Raises the error that ended the coordinator."""
        for loop, name in (
            (self._broadcaster.publish_until_stopped, "broadcaster"),
            (self._relays.poll_until_stopped, "relays"),
            (lambda _: self._end_server(stop), "end"),
        ):
            threading.Thread(target=self._run_guarded, args=(loop,), name=name, daemon=True).start()
        self._coordinator.start()
        self._server.run(sockets=[self._listener])
        if self._failures:
            raise self._failures[0]

    def close(self) -> None:
        self._stop.set()
        self._coordinator.close()
        self._listener.close()
        self._controller.close()

    def _run_guarded(self, loop: Callable[[threading.Event], None]) -> None:
        try:
            loop(self._stop)
        except BaseException as error:
            self._failures.append(error)

    def _end_server(self, stop: threading.Event) -> None:
        """Stop the server on `stop`, on a failure, or after the run's end once nodes were notified or timed out."""
        end_at = inf
        try:
            while not (stop.is_set() or self._failures or self._stop.is_set()) and time.monotonic() < end_at:
                stop.wait(_POLL_SECONDS)
                if self._coordinator.has_ended:
                    until = time.monotonic() + (0.0 if self._coordinator.all_notified() else _SHUTDOWN_SECONDS)
                    end_at = min(end_at, until)
        finally:
            self._server.should_exit = True


def _read_or_create_settings(
    folder: SwarmFolder, key: Ed25519PrivateKey, run: str, create: Callable[[], SwarmSettings]
) -> SwarmSettings:
    """Read the settings in the folder, or store new ones. Raises ConfigError if they are another run's."""
    try:
        signed = folder.settings_path.read_bytes()
    except FileNotFoundError:
        settings = create()
        write_atomic(folder.settings_path, sign_settings(settings, key))
        return settings
    try:
        return read_settings(signed, run, public_key_bytes(key))
    except (BadSignature, msgspec.MsgspecError) as error:
        raise ConfigError(f"{folder.path} belongs to another swarm: {error}. Choose another FOLDER.") from None


def _read_or_create_page_token(folder: SwarmFolder) -> str:
    if not folder.page_token_path.exists():
        descriptor = os.open(folder.page_token_path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(24) + "\n")
    return folder.page_token_path.read_text(encoding="ascii").strip()


class _RelayPoller:
    """A poller of the newest version on each relay, for the operator; -1 if unreachable."""

    def __init__(self, urls: tuple[str, ...], run: str, public_key: bytes) -> None:
        self._run, self._public_key = run, public_key
        self._versions = dict.fromkeys(urls, -1)
        self._clients = {url: open_relay(url, 1) for url in urls}

    def get_versions(self) -> dict[str, int]:
        return dict(self._versions)

    def poll_until_stopped(self, stop: threading.Event) -> None:
        """Poll each relay periodically, without the backoff and quarantine of clients."""
        while not stop.is_set():
            for url, client in self._clients.items():
                self._versions[url] = self._fetch_version(client)
            stop.wait(_RELAYS_SECONDS)

    def _fetch_version(self, client: HttpClient) -> int:
        try:
            signed = get(client, build_latest_path(self._run), MAX_LATEST_BYTES, seconds=5.0)
            return read_latest(signed, self._run, self._public_key).version
        except (RelayError, NotAvailable, BadSignature):
            return -1
