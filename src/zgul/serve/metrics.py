"""What the service counts, in Prometheus' text format."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)
WORDS = (1, 4, 16, 64, 256, 1024, 4096, 16384)


class Metrics:
    """The metrics of one service."""

    def __init__(self) -> None:
        self.registry = own = CollectorRegistry()
        self.requests = Counter("zgul_requests", "Requests by route and status.", ["route", "status"], registry=own)
        self.seconds = Histogram("zgul_request_seconds", "Time to answer.", ["route"], buckets=SECONDS, registry=own)
        self.words = Counter("zgul_words", "Words that were tagged.", registry=own)
        self.waiting = Gauge("zgul_waiting_words", "Words that wait to be tagged.", registry=own)
        self.batch_words = Histogram("zgul_batch_words", "Words tagged together.", buckets=WORDS, registry=own)

    def text(self) -> bytes:
        return generate_latest(self.registry)
