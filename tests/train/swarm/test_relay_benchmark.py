"""The benchmark of relays (benchmarks/swarm/broadcast.py) measures a client that gets the weights."""

import sys
from pathlib import Path

from benchmarks.swarm import broadcast


def test_the_client_of_the_benchmark_fetches_what_was_published(tmp_path: Path) -> None:
    broadcast.publish_random(tmp_path, 200_000, 50_000)
    with broadcast.start_relay({"folder": str(tmp_path / "store"), "megabytes_per_second": 100}) as url:
        assert broadcast.time_client(sys.executable, broadcast.OURS, [url]) is not None
