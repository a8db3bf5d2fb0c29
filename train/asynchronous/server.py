"""The HTTP server of a controller, in a thread of rank 0's process."""

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

import uvicorn

from sandbox.service.bounded_http import MAX_CONNECTIONS, bounded_config
from sandbox.service.server import listen, raise_descriptor_limit
from sandbox.service.settings import is_loopback
from train.asynchronous.messages import ControllerAPI
from train.asynchronous.routes import ControllerApp
from train.errors import ConfigError, RunError
from train.sampling.engine_spec import EngineSpec

log = logging.getLogger(__name__)

_HEAD_SECONDS, _RESPONSE_TIMEOUT_SECONDS, _KEEP_ALIVE_SECONDS = 10.0, 60.0, 60
_START_SECONDS = 30.0
_SHUTDOWN_SECONDS = 6.0  # workers call at least every 4 s, and are then told that the run is over
_STOP_SECONDS = 5.0
_FILES_PER_CONNECTION = (
    4  # that the process may open: one connection reads a file of weights, and the trainer has its own
)


class ControllerServer:
    """Serves a controller until it is closed.

    controller  in this process
    listen_to   HOST:PORT; port 0 takes a free one
    token       what workers must send; None only if no other machine can reach the address
    run         name of the run, the same when it is continued
    spec        what a worker needs in order to start its engine
    fail        called with the error if the server fails, since no worker can call any more

    Raises ConfigError if the address cannot be used, or is open to others without a token.
    """

    def __init__(
        self, controller: ControllerAPI, listen_to: str, *, token: str | None, run: str, spec: EngineSpec,
        fail: Callable[[RunError], None] = lambda error: None,
    ) -> None:  # fmt: skip
        self._fail = fail
        host, port = _address(listen_to)
        try:
            if token is None and not is_loopback(host):
                raise ConfigError(
                    f"workers.listen = {listen_to!r} can be reached from other machines, so it needs a token: set the "
                    "environment variable CURATE_TOKEN here and where the workers are started"
                )
            self._listener = listen(host, port)
        except OSError as error:
            raise ConfigError(f"workers.listen: cannot listen on {listen_to}: {error}") from error
        max_connections = min(MAX_CONNECTIONS, raise_descriptor_limit() // _FILES_PER_CONNECTION)
        self._app = ControllerApp(controller, spec, run=run, host=host, token=token)
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self._listener.getsockname()[1]}"
        self._server = uvicorn.Server(
            bounded_config(
                self._app,
                head_seconds=_HEAD_SECONDS,
                answer_seconds=_RESPONSE_TIMEOUT_SECONDS,
                keep_alive_seconds=_KEEP_ALIVE_SECONDS,
                stop_seconds=int(_STOP_SECONDS),
                max_connections=max_connections,
            )
        )
        self._thread = threading.Thread(target=self._serve, name="controller-http", daemon=True)
        self._thread.start()
        until = time.monotonic() + _START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > until:
                self._listener.close()
                raise RunError(f"the server for workers did not start on {self.url}")
            time.sleep(0.01)

    def close(self, *, run_ended: bool = True) -> None:
        """End the server. If the run is over, workers that live are told so first; the controller must be closed."""
        until = time.monotonic() + _SHUTDOWN_SECONDS
        while run_ended and not self._app.all_workers_notified(_SHUTDOWN_SECONDS) and time.monotonic() < until:
            time.sleep(0.05)
        self._app.stop()
        self._server.should_exit = True
        self._thread.join(_STOP_SECONDS + 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(run_ended=error is None)

    def _serve(self) -> None:
        try:
            self._server.run(sockets=[self._listener])
        except Exception as error:
            log.exception("the server for workers has failed")
            self._fail(RunError(f"the server for workers has failed ({error}). Continue with --resume."))
        finally:
            self._listener.close()


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"workers.listen must be HOST:PORT, not {text!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)
