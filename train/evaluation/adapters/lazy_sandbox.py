"""The sandbox that all answers of a run share. It is opened for the first answer, and closed at the end of the run.

It is opened as the rewards in trainers open theirs: on this machine or, if CURATE_URL is set, behind that service, with
the packages that CURATE_PACKAGES names.
"""

import threading

from rewards.process_singletons import options_from_environment
from sandbox import Sandbox


class LazySandbox:
    """Any number of threads may ask for the sandbox. One that is still open ends with the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sandbox: Sandbox | None = None

    def get(self) -> Sandbox:
        """Return the sandbox, which is opened if there is none. Raises SandboxError if it cannot be opened."""
        with self._lock:
            if self._sandbox is None:
                self._sandbox = options_from_environment().open()
            return self._sandbox

    def close(self) -> None:
        """Close the sandbox, if there is one; the next call of `opened` opens another."""
        with self._lock:
            sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            sandbox.close()
