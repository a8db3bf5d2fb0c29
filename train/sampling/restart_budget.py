"""How often engines may be started again, counted within an hour, so that a run of weeks survives a rare failure."""

from collections import deque

_HOUR = 3600.0


class RestartBudget:
    """Allows `per_hour` restarts within any hour."""

    def __init__(self, per_hour: int) -> None:
        self.per_hour = per_hour
        self._restarts: deque[float] = deque()

    def spend(self, now: float) -> bool:
        """Return whether one more restart is allowed at this time, in seconds, and count it if so."""
        while self._restarts and now - self._restarts[0] > _HOUR:
            self._restarts.popleft()
        if len(self._restarts) >= self.per_hour:
            return False
        self._restarts.append(now)
        return True
