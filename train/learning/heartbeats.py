"""Heartbeats of the ranks, which detect and name a lost rank within about a minute.

torchrun's agent does not detect a hanging rank, and ends the other ranks without naming the failed one. So a thread of
each rank increments a counter in torchrun's store every few seconds. Rank 0 watches all other ranks, and they watch
rank 0, so they can wait for its next call without a time limit. Nothing can interrupt a collective with a lost rank, so
the waiting process exits.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psutil
import torch.distributed as dist

from train import interrupts
from train.errors import LearnerError

log = logging.getLogger(__name__)

LOST_SECONDS = 60.0  # time without a heartbeat after which a rank counts as lost
_HEARTBEAT_SECONDS, _WATCH_SECONDS = 2.0, 0.5
FAILURE_GRACE_SECONDS = 30  # after the loss of a rank, time for a call to raise an error before the process exits
_ADVICE = ". --resume continues the run."
_FIRST_POLLS, _SHORT_POLL_SECONDS, _POLL_SECONDS = 200, 0.005, 0.1


class Heartbeats:
    """The heartbeats of this rank and of the ranks that it watches; one instance for each process.

    ends_process: whether a background thread may end this process after the loss of a rank
    """

    def __init__(self, rank: int, size: int) -> None:
        self._rank, self._size, self._lost_seconds = rank, size, LOST_SECONDS
        self._watched = [other for other in range(size) if other != rank] if rank == 0 else [0]
        # Ignore keys of earlier torchrun attempts.
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        self._stores = [dist.PrefixStore(f"curate-{attempt}", _connect_store()) for _ in range(2)]  # type: ignore[attr-defined]
        self._hosts: dict[int, tuple[str, int]] = {}  # by rank: machine and process id
        self._calls = self._n_heartbeats = 0
        self._lost_reason, self._no_heartbeat = "", f"no heartbeat for {LOST_SECONDS:g} s"
        self.ends_process = self._is_in_call = False
        self._ended = threading.Event()
        self._stores[0].set(f"process/{rank}", f"{_get_machine_id()} {os.getpid()}")
        for target in (self._exchange_heartbeats, self._watch):
            threading.Thread(target=target, name="heartbeats", daemon=True).start()

    @contextmanager
    def guard_call(self) -> Iterator[None]:
        """Mark the block as a call that waits for other ranks; if one is lost, this process may exit."""
        self._is_in_call = True
        try:
            yield
        finally:
            self._is_in_call = False

    def stop(self) -> None:
        self.ends_process = False
        self._ended.set()

    def announce_call(self) -> None:
        """Announce a call of rank 0 to the other ranks. Raises LearnerError if a rank is lost."""
        self._raise_if_lost()
        self._calls += 1
        self._stores[0].set("calls", str(self._calls))  # a single key, so the store does not grow

    def wait_for_call(self) -> None:
        """Wait until rank 0 announces its next call. Raises LearnerError if rank 0 is lost or failed."""
        self._calls += 1
        store, polls = self._stores[0], 0
        while not store.check(["calls"]) or int(store.get("calls")) < self._calls:
            self._raise_if_lost()
            polls += 1
            time.sleep(_SHORT_POLL_SECONDS if polls < _FIRST_POLLS else _POLL_SECONDS)

    def _raise_if_lost(self) -> None:
        if self._lost_reason:
            raise LearnerError(self._lost_reason)

    def announce_failure(self, reason: str) -> None:
        """Send the other ranks the reason of this rank's failure."""
        with suppress(RuntimeError):  # the store may be unreachable
            self._stores[0].set(f"failed/{self._rank}", " ".join(reason.split()))

    def find_lost_rank(self) -> str:
        """After a failed call, wait for the detection of a lost rank. Return the reason; "" if none is lost."""
        deadline = time.monotonic() + self._lost_seconds + 2 * _HEARTBEAT_SECONDS
        while not self._lost_reason and time.monotonic() < deadline:
            time.sleep(_SHORT_POLL_SECONDS)
        return self._lost_reason

    def _exchange_heartbeats(self) -> None:
        last_heartbeats = {rank: ("", 0) for rank in self._watched}
        while not self._ended.wait(_HEARTBEAT_SECONDS):
            # Deadlines are counted in this rank's own heartbeats, so no rank is lost if the whole job was suspended.
            self._n_heartbeats += 1
            try:
                self._stores[1].set(f"beat/{self._rank}", str(self._n_heartbeats))
                self._forward_interrupts()
                loss = next(filter(None, (self._find_loss_reason(rank, last_heartbeats) for rank in self._watched)), "")
            except RuntimeError as error:
                # The store runs in the process of rank 0 or torchrun. If it is unreachable, that process has ended.
                reason = (str(error).strip() or type(error).__name__).splitlines()[0]
                loss = f"{self._describe_rank(0)} is lost, or its machine cannot be reached ({reason})"
            if loss:
                self._lost_reason = f"{loss.removesuffix(_ADVICE)}{_ADVICE}"
                return

    def _watch(self) -> None:
        """End this process if a rank is lost. Runs in its own thread: the heartbeat thread blocks if rank 0 hangs."""
        n_heartbeats, silent_seconds = 0, 0.0
        while not self._lost_reason and not self._ended.wait(_WATCH_SECONDS):
            silent_seconds = silent_seconds + _WATCH_SECONDS if n_heartbeats == self._n_heartbeats else 0.0
            n_heartbeats = self._n_heartbeats
            if silent_seconds > self._lost_seconds + _HEARTBEAT_SECONDS:
                self._lost_reason = (
                    self._lost_reason or f"{self._describe_rank(0)} is lost: {self._no_heartbeat}{_ADVICE}"
                )
        if self.ends_process and self._rank == 0 and not self._is_in_call:  # do not wait for hours of sampling
            interrupts.request_interrupt(LearnerError(self._lost_reason))
        stuck_seconds = 0.0
        while self.ends_process and not self._ended.wait(_WATCH_SECONDS):
            stuck_seconds = stuck_seconds + _WATCH_SECONDS if self._is_in_call else 0.0
            if stuck_seconds >= FAILURE_GRACE_SECONDS:
                log.error("%s This process exits, too, because it waits for that rank.", self._lost_reason)
                os._exit(1)

    def _find_loss_reason(self, rank: int, last_heartbeats: dict[int, tuple[str, int]]) -> str:
        """Return the reason why a rank counts as lost; "" if it is alive."""
        store = self._stores[1]
        if store.check([f"failed/{rank}"]):
            return f"{self._describe_rank(rank)} has failed: {store.get(f'failed/{rank}').decode()}"
        heartbeat = store.get(f"beat/{rank}").decode() if store.check([f"beat/{rank}"]) else ""
        if heartbeat != last_heartbeats[rank][0]:
            last_heartbeats[rank] = heartbeat, self._n_heartbeats
        if rank not in self._hosts and store.check([f"process/{rank}"]):
            machine, process = store.get(f"process/{rank}").decode().rsplit(" ", 1)
            self._hosts[rank] = machine, int(process)
        machine, process_id = self._hosts.get(rank, ("", 0))
        if machine == _get_machine_id() and not _is_alive(process_id):
            return f"{self._describe_rank(rank)} is lost: its process {process_id} has ended"
        if (self._n_heartbeats - last_heartbeats[rank][1]) * _HEARTBEAT_SECONDS > self._lost_seconds:
            return f"{self._describe_rank(rank)} is lost: {self._no_heartbeat}"
        return ""

    def _forward_interrupts(self) -> None:
        """Forward an interrupt of this rank to rank 0, which saves the run."""
        if self._rank and interrupts.is_interrupt_requested():
            self._stores[1].set("asked to end", "")
        elif not self._rank and self._stores[1].check(["asked to end"]):
            interrupts.request_interrupt()

    def _describe_rank(self, rank: int) -> str:
        machine, _ = self._hosts.get(rank, ("", 0))
        return f"rank {rank} of {self._size}" + (f" on {machine.split()[0]}" if machine else "")


def _connect_store() -> Any:
    """Open a separate connection to torchrun's store, since a blocked call blocks its whole connection."""
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    return dist.TCPStore(host, port, is_master=False, wait_for_workers=False)  # type: ignore[attr-defined]


def _get_machine_id() -> str:
    """Return the host name and PID namespace: two ranks with equal ids can compare process ids."""
    return f"{socket.gethostname()} {os.readlink('/proc/self/ns/pid')}"


def _is_alive(process: int) -> bool:
    try:
        return bool(psutil.Process(process).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
