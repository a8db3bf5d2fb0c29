"""The worker process that calls a Python judge.

    python -m curate.probe.worker SPECIFICATION

It serves requests from a socket. The judge may run a hostile program in this process. The parent therefore ignores
responses without the token of the request, and kills the process after a timeout.
"""

import builtins
import contextlib
import json
import os
import socket
import sys
import sysconfig
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from curate.probe.bait import expose_bait
from curate.probe.forms import FORMS, BadScore, UnusableTarget, detect_signature, prepare_call, read_score
from curate.probe.isolation import isolate
from sandbox.suite import Suite

_encode, _decode = json.JSONEncoder().encode, json.JSONDecoder().decode
_get, _set, _has = getattr, setattr, hasattr
# Binds the judge to a completion, its tests and the index of their form.
Prepare = Callable[[str, Suite, int], Callable[[], Any]]
# Returns the score in the judge's result.
Read = Callable[[Any], float | None]
_WATCHED: list[tuple[Any, str]] = [
    *((builtins, name) for name in vars(builtins) if not name.startswith("_")),
    (json, "loads"), (json, "dumps"), (json.JSONDecoder, "decode"), (json.JSONEncoder, "encode"),
]  # fmt: skip
_Values = tuple[Any, ...]
_LIBRARY = sysconfig.get_path("stdlib")
_CALLERS = (__file__, prepare_call.__code__.co_filename)
_MAX_REQUEST_BYTES = 1 << 22


def _swap_attributes(values: _Values) -> _Values:
    """Set the watched attributes to these values, and return the previous ones.

    A hostile program may replace them. The judge then keeps the replacements, but this module must not use them.
    """
    found = tuple([_get(owner, name, None) for owner, name in _WATCHED])
    for index, value in enumerate(values):
        if value is not found[index]:
            _set(*_WATCHED[index], value)
    return found


def main(specification: str) -> None:
    """Serve requests until the parent closes the socket."""
    spec = json.loads(specification)
    channel = socket.socket(fileno=spec["descriptor"])
    protections = isolate(spec["visible_folders"], network=spec["network"])
    scratch = Path(f"/tmp/curate-probe-{os.getpid()}")
    scratch.mkdir(exist_ok=True)
    os.environ["TMPDIR"] = str(scratch)
    # At the end, so that no file in the folder shadows an installed module.
    sys.path.append(spec["folder"])
    if spec["bait"]:
        # Never exited, and referenced here, so the bait lasts as long as this process.
        bait = expose_bait(spec["bait"])
        bait.__enter__()
    try:
        prepare, read, description = load_judge(spec)
    except UnusableTarget as error:
        _send(channel, {"token": "", "unusable": str(error)})
        return
    _send(channel, {"token": "", "protections": protections, "scratch": str(scratch), **description})
    # Keeps files that programs write out of the user's working folder.
    os.chdir(scratch)
    own_pid = os.getpid()
    judge_values = tuple(_get(owner, name, None) for owner, name in _WATCHED)
    for request in _iter_requests(channel):
        response, judge_values = _execute(prepare, read, request, judge_values)
        # A submission that called fork() returns here in its child too.
        if os.getpid() != own_pid:
            os._exit(0)
        _send(channel, response)


def _iter_requests(channel: socket.socket) -> Iterator[dict[str, Any]]:
    while packet := channel.recv(_MAX_REQUEST_BYTES):
        yield _decode(packet.decode())


def _send(channel: socket.socket, response: dict[str, Any]) -> None:
    channel.send(_encode(response).encode())


def _execute(
    prepare: Prepare, read: Read, request: dict[str, Any], judge_values: _Values
) -> tuple[dict[str, Any], _Values]:
    """Execute a request. Return the response, and the watched attributes as the judge left them.

    judge_values   the attributes as the judge left them after the previous request
    """
    response: dict[str, Any] = {"token": request["token"], "score": None, "fault": "", "detail": ""}
    call = prepare(request["completion"], Suite.from_json(request["suite"]), request["form"])
    result, failure = None, None
    began = time.monotonic()
    with _simulate_outage(request["condition"]):
        own_values = _swap_attributes(judge_values)
        try:
            result = call()
        # A program may raise SystemExit.
        except BaseException as error:
            failure = error
        judge_values = _swap_attributes(own_values)
    response["seconds"] = time.monotonic() - began
    try:
        if failure is not None:
            raise failure
        response["score"] = read(result)
    except BadScore as error:
        response |= {"fault": "no number", "detail": str(error)}
    except BaseException as error:
        message = f"{type(error).__name__}: {error}".removesuffix(": ")[:300]
        response |= {"fault": "raised", "detail": message + _find_failure_location(error)}
    # The detail may contain a lone surrogate, which UTF-8 cannot encode.
    response["detail"] = response["detail"].encode("utf-8", "backslashreplace").decode()
    return response, judge_values


def _find_failure_location(error: BaseException) -> str:
    """Return the innermost line of the traceback in the judge or an installed package; empty for none."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename not in _CALLERS]
    own = [frame for frame in frames if not frame.filename.startswith(_LIBRARY) or "site-packages" in frame.filename]
    return f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""


def load_judge(spec: dict[str, Any]) -> tuple[Prepare, Read, dict[str, Any]]:
    """Import the judge. Return its functions, and its signature and the names of its forms. Raises UnusableTarget."""
    function = _import_function(spec["name"])
    if spec["argument"] is not None:
        function = function(spec["argument"])
    signature = spec["signature"] or detect_signature(function)
    forms = FORMS[signature]

    def prepare(completion: str, suite: Suite, form: int) -> Callable[[], Any]:
        return prepare_call(function, signature, forms[form], completion, suite)

    description = {"signature": signature, "forms": [form.name for form in forms]}
    return prepare, partial(read_score, signature=signature), description


def _import_function(name: str) -> Callable[..., Any]:
    module_name, _, function_name = name.partition(":")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            if module_name.endswith(".py"):
                raise UnusableTarget(
                    f"{module_name} is a file; pass its module, {module_name[:-3]}:{function_name}"
                ) from error
            raise UnusableTarget(
                f"there is no module {module_name}, neither in {os.getcwd()} nor among the installed packages"
            ) from error
        raise UnusableTarget(f"{module_name} cannot be imported: {error}; install the missing package") from error
    except (Exception, SystemExit) as error:
        raise UnusableTarget(f"{module_name} cannot be imported: {type(error).__name__}: {error}") from error
    function: Any = getattr(module, function_name, None)
    if not callable(function):
        own = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise UnusableTarget(f"{module_name} has no function {function_name}; it has {', '.join(own[:8]) or 'none'}")
    judge: Callable[..., Any] = function
    return judge


@contextlib.contextmanager
def _simulate_outage(condition: str) -> Iterator[None]:
    """Simulate an outage within this context, unless the condition is empty."""
    if not condition:
        yield
        return
    from curate.probe.outages import simulate

    with simulate(condition):
        yield


if __name__ == "__main__":
    main(sys.argv[1])
