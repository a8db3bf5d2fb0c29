"""What a worker holds, shared by the thread of its engine and those that talk to the controller."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable

from train.asynchronous.messages import Lease, LeaseKey, ResultStatus, SampleResult
from train.weights.manifest import WeightManifest
from train.weights.source import Weights


class WorkerState:
    """What the threads of a worker share. A thread holds `changed` while it reads or changes something.

    loaded          version of the weights that the engine draws with; -1: none that the controller knows
    manifest        that of these weights
    open_leases     the leases, with the number of answers that are not handed over
    arrived         leases that the engine has not begun
    unsent          answers for which there is no receipt
    lost            leases that are no longer ours, and that the engine still works on
    fetched         weights that the engine has not loaded
    free_slots      free engine slots to request leases for; 0 while no request is due
    ask_at          when the controller may be asked for groups again
    tokens_sampled  tokens that were drawn so far
    busy_seconds    seconds that this took
    is_over         the run has ended
    is_leaving the worker is to end
    error           what ended a thread
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.loaded = -1
        self.manifest: WeightManifest | None = None
        self.open_leases: dict[LeaseKey, int] = {}
        self.arrived: deque[Lease] = deque()
        self.unsent: deque[SampleResult] = deque()
        self.lost: set[LeaseKey] = set()
        self.fetched: tuple[WeightManifest, Weights] | None = None
        self.free_slots = 0
        self.ask_at = 0.0
        self.tokens_sampled = 0
        self.busy_seconds = 0.0
        self.is_over = False
        self.is_leaving = False
        self.error: BaseException | None = None

    @property
    def has_ended(self) -> bool:
        return self.is_over or self.is_leaving or self.error is not None

    def wait(self, until: Callable[[], bool], seconds: float | None = None) -> None:
        """Wait until this holds, the worker ends, or the time is over."""
        with self.changed:
            self.changed.wait_for(lambda: until() or self.has_ended, seconds)

    def sleep(self, seconds: float) -> bool:
        """Wait, and return whether the worker goes on."""
        self.wait(lambda: False, seconds)
        return not self.has_ended

    def stop_threads(self, *, run_ended: bool = False, error: BaseException | None = None) -> None:
        """Let all threads end."""
        with self.changed:
            self.is_over = self.is_over or run_ended
            self.is_leaving = self.is_leaving or not run_ended
            self.error = self.error or error
            self.changed.notify_all()

    def accept_leases(self, leases: Iterable[Lease], wait_seconds: float) -> None:
        """Take the reply to a request for groups."""
        with self.changed:
            for lease in leases:
                self.arrived.append(lease)
                self.open_leases[lease.group, lease.attempt] = len(lease.seeds)
            self.free_slots = 0
            self.ask_at = time.monotonic() + wait_seconds
            self.changed.notify_all()

    def queue_result(self, answer: SampleResult) -> None:
        """Take an answer that is to be sent, unless its lease is lost."""
        key = answer.group, answer.attempt
        with self.changed:
            if key not in self.open_leases:
                return
            if answer.finish_reason == "refused":
                self.open_leases[key] = 1  # the controller gives up the whole group
            self.unsent.append(answer)
            self.changed.notify_all()

    def acknowledge(self, answer: SampleResult, receipt: ResultStatus) -> None:
        """Take the receipt for an answer."""
        key = answer.group, answer.attempt
        with self.changed:
            if answer in self.unsent:  # it is not there if the lease was lost meanwhile
                self.unsent.remove(answer)
            if receipt in ("stale", "broken"):
                self.drop_leases([key])
            elif key in self.open_leases:
                self.open_leases[key] -= 1
                if self.open_leases[key] == 0:
                    del self.open_leases[key]

    def drop_leases(self, keys: Iterable[LeaseKey]) -> None:
        """Forget leases; the engine drops what it has begun."""
        with self.changed:
            gone = {key for key in keys if self.open_leases.pop(key, None) is not None}
            self.arrived = deque(lease for lease in self.arrived if (lease.group, lease.attempt) not in gone)
            self.unsent = deque(answer for answer in self.unsent if (answer.group, answer.attempt) not in gone)
            self.lost |= gone
            self.changed.notify_all()
