"""A process that serves HTTP: checks requests, parses their JSON, and forwards them to the dispatcher."""

import asyncio
import logging
import os
import pickle
import socket
import sys
from dataclasses import dataclass

import uvicorn

from sandbox.kernel import linux
from sandbox.service.app import ServiceApp
from sandbox.service.dispatcher_client import DispatcherClient
from sandbox.service.listener import MAX_CONNECTIONS, raise_descriptor_limit
from sandbox.service.request_bounds import RequestBounds
from sandbox.service.settings import ServiceSettings

_KEEP_ALIVE_SECONDS = 30  # time after which an idle connection is closed
_START_POLL_SECONDS = 0.01


@dataclass(frozen=True)
class FrontEndConfig:
    """The configuration of a front end, sent to its standard input.

    workers   number of concurrent programs
    """

    settings: ServiceSettings
    bounds: RequestBounds
    workers: int


def main(link: int, listener: int) -> None:
    """Serve until the dispatcher closes the link. link, listener: descriptors of sockets."""
    raise_descriptor_limit()
    linux.enable_malloc_trim()  # returns the memory of large bodies and responses to the kernel
    config: FrontEndConfig = pickle.load(sys.stdin.buffer)
    loop_factory = uvicorn.Config("").get_loop_factory()
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(_serve(config, socket.socket(fileno=link), socket.socket(fileno=listener)))


async def _serve(config: FrontEndConfig, link: socket.socket, listener: socket.socket) -> None:
    def drain() -> None:
        app.draining = server.should_exit = True

    dispatcher = DispatcherClient(config.workers, drain, on_end=lambda: os._exit(1))
    app = ServiceApp(dispatcher, config.settings, config.bounds)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level=logging.ERROR,
            access_log=False,
            server_header=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        )
    )
    await asyncio.get_running_loop().create_connection(lambda: dispatcher.link, sock=link)
    server_task = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started and not server_task.done():
        await asyncio.sleep(_START_POLL_SECONDS)
    dispatcher.report_ready()
    await server_task
