"""What Prometheus may know: GET /metrics. A registry for each service; nothing global."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from sandbox.service.admission import Line

_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 300)


class Measures:
    content_type = CONTENT_TYPE_LATEST

    def __init__(self, line: Line, workers: int) -> None:
        self._registry = registry = CollectorRegistry()
        gauges = {
            "curate_queue_depth": ("Requests and records that wait for a worker", lambda: line.waiting),
            "curate_in_flight": ("Runs and judgements in progress", lambda: line.running),
            "curate_workers": ("Programs that can run at once", lambda: workers),
            "curate_draining": ("1 after the signal to stop", lambda: line.draining),
        }
        for name, (words, read) in gauges.items():
            Gauge(name, words, registry=registry).set_function(read)
        self.responses = Counter("curate_http_responses", "Responses", ["path", "code"], registry=registry)
        self.verdicts = Counter("curate_verdicts", "Submissions judged", ["verdict"], registry=registry)
        self.outcomes = Counter("curate_runs", "Programs run", ["outcome"], registry=registry)
        self.failures = Counter("curate_sandbox_failures", "Lost by the sandbox", registry=registry)
        self.cancelled = Counter("curate_cancelled", "Killed because the client had gone", registry=registry)
        self.queue_seconds = Histogram("curate_queue_seconds", "Wait for a worker", registry=registry, buckets=_SECONDS)
        self.work_seconds = Histogram(
            "curate_work_seconds", "A run, or a judgement", ["kind"], registry=registry, buckets=_SECONDS
        )

    def text(self) -> bytes:
        return generate_latest(self._registry)
