"""A real headless Chromium, driven through a pair of pipes: no driver and no package besides the browser itself."""

import base64
import json
import os
import select
import shutil
import struct
import subprocess
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
_SECONDS = 60
_MARGIN = 16  # pixels around the part of a page in a picture


def find() -> str | None:
    """Return the path of the browser, or None if this machine has no browser."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def opened() -> "Iterator[Browser]":
    """Open the browser; skip the test if this machine has none, or fail where it has to be there."""
    program = find()
    if program is None and os.environ.get("CURATE_REQUIRE_CHROMIUM") == "1":
        pytest.fail("CURATE_REQUIRE_CHROMIUM is set and there is no chromium")
    if program is None:
        pytest.skip("needs a headless browser; on Debian: apt-get install chromium")
    with Browser(program) as browser:
        yield browser


class Browser:
    """A browser with one page. `said` has the page's messages on the console, `asked` the addresses it requested."""

    def __init__(self, program: str) -> None:
        self.said: list[str] = []
        self.asked: list[str] = []
        self._profile = tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True)
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # The browser reads commands from descriptor 3 and answers on 4; the shell connects both to our pipes.
        command = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe"]
        options += [f"--user-data-dir={self._profile.name}", "--hide-scrollbars", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", command, "bash", program, *options],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._rest = b""
        self._sent = 0
        self._session: str | None = None
        target = self.do("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.do("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.do(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._out)
        self._process.terminate()
        self._process.wait(_SECONDS)
        os.close(self._in)
        self._profile.cleanup()

    def open(self, address: str, *, width: int, height: int, dark: bool = False) -> None:
        """Show an address in a window of this size in pixels, and wait until the page is loaded."""
        self.do("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.do("Emulation.setEmulatedMedia", features=scheme)
        self.do("Page.navigate", url=address)
        while self._message().get("method") != "Page.loadEventFired":
            pass

    def value(self, expression: str) -> Any:
        """Return the value of a JavaScript expression on the page."""
        return self.do("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def screenshot(self, path: Path, *, whole: bool = False) -> Path:
        """Return a PNG of what the window shows, or of the whole page."""
        answer = self.do("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))
        return path

    def part(self, path: Path, first: str, last: str) -> Path:
        """Return a PNG of the page from the top of an element to the bottom of another one, both as CSS selectors."""
        box = "document.querySelector({!r}).getBoundingClientRect()"
        top = max(self.value(f"{box.format(first)}.top + scrollY") - _MARGIN, 0)
        bottom = self.value(f"{box.format(last)}.bottom + scrollY") + _MARGIN
        clip = {"x": 0, "y": top, "width": self.value("innerWidth"), "height": bottom - top, "scale": 1}
        answer = self.do("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(answer["data"]))
        return path

    def do(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command of the DevTools protocol and wait for its answer."""
        self._sent += 1
        message: dict[str, Any] = {"id": self._sent, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self._sent:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            assert select.select([self._in], [], [], _SECONDS)[0], f"the browser has said nothing for {_SECONDS} s"
            more = os.read(self._in, 1 << 16)
            assert more, "the browser has ended"
            self._rest += more
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, method: str | None, parameters: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.asked.append(parameters["request"]["url"])
        elif method == "Runtime.consoleAPICalled":
            self.said.append(str([argument.get("value") for argument in parameters["args"]]))
        elif method == "Runtime.exceptionThrown":
            self.said.append(parameters["exceptionDetails"]["text"])
        elif method == "Log.entryAdded":
            self.said.append(parameters["entry"]["text"])


def pixels(png: bytes) -> list[list[bytes]]:
    """Return the rows of pixels of a PNG as browsers write it: 8 bits a channel, RGB or RGBA, not interlaced."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    place, data = 8, b""
    header: tuple[int, ...] = ()
    while place < len(png):
        (length,), kind = struct.unpack(">I", png[place : place + 4]), png[place + 4 : place + 8]
        content = png[place + 8 : place + 8 + length]
        place += length + 12
        if kind == b"IHDR":
            header = struct.unpack(">IIBBBBB", content)
        elif kind == b"IDAT":
            data += content
    width, height, depth, colour, _, _, interlaced = header
    assert (depth, interlaced) == (8, 0)
    size = {2: 3, 6: 4}[colour]
    raw, before, rows = zlib.decompress(data), bytearray(width * size), []
    for number in range(height):
        start = number * (width * size + 1)
        line = bytearray(raw[start + 1 : start + 1 + width * size])
        _unfilter(raw[start], line, before, size)
        rows.append([bytes(line[x : x + size]) for x in range(0, len(line), size)])
        before = line
    return rows


def _unfilter(kind: int, line: bytearray, above: bytearray, size: int) -> None:
    """Undo the filter of a row (section 9 of the PNG specification): each byte is a difference from a prediction."""
    for place in range(len(line)):
        left = line[place - size] if place >= size else 0
        corner = above[place - size] if place >= size else 0
        up = above[place]
        near = left + up - corner
        paeth = min((left, up, corner), key=lambda guess: abs(near - guess))
        line[place] = line[place] + (0, left, up, (left + up) // 2, paeth)[kind] & 0xFF
