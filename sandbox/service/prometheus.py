"""GET /metrics: the metrics of one service for Prometheus, in their own registry."""

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from sandbox.judge import Judgement
from sandbox.program import RunResult
from sandbox.service.fair_queue import FairQueue

CONTENT_TYPE = CONTENT_TYPE_LATEST
_BUCKETS_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 300)


class ServiceMetrics:
    """Gauges that read the queue, and counters and histograms that the dispatcher updates."""

    def __init__(self, queue: FairQueue[Any], workers: int) -> None:
        self._registry = registry = CollectorRegistry()
        gauges = {
            "curate_queue_depth": ("Requests and records waiting for a worker", lambda: queue.n_waiting),
            "curate_in_flight": ("Runs and judgements in progress", lambda: queue.n_running),
            "curate_workers": ("Programs that can run concurrently", lambda: workers),
            "curate_draining": ("1 after the signal to stop, 0 before", lambda: queue.draining),
        }
        for name, (help_text, read) in gauges.items():
            Gauge(name, help_text, registry=registry).set_function(read)
        self.responses = Counter("curate_http_responses", "Responses sent", ["path", "code"], registry=registry)
        self.failures = Counter("curate_sandbox_failures", "Requests at which the sandbox failed", registry=registry)
        self.cancelled = Counter("curate_cancelled", "Requests whose client disconnected", registry=registry)
        self.queue_seconds = Histogram(
            "curate_queue_seconds",
            "Seconds that requests waited for a worker",
            registry=registry,
            buckets=_BUCKETS_SECONDS,
        )
        self._verdicts = Counter("curate_verdicts", "Submissions judged", ["verdict"], registry=registry)
        self._outcomes = Counter("curate_runs", "Programs run", ["outcome"], registry=registry)
        self._work_seconds = Histogram(
            "curate_work_seconds",
            "Seconds that a run or a judgement took",
            ["kind"],
            registry=registry,
            buckets=_BUCKETS_SECONDS,
        )

    def count(self, result: RunResult | Judgement, seconds: float) -> None:
        """Count a run or a judgement. seconds: its duration."""
        if isinstance(result, Judgement):
            self._verdicts.labels(result.verdict.value).inc()
            self._work_seconds.labels("judge").observe(seconds)
        else:
            self._outcomes.labels(result.outcome.value).inc()
            self._work_seconds.labels("run").observe(seconds)

    def encode(self) -> bytes:
        """Encode all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)
