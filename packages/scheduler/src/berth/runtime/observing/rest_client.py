"""The requests to the API server, in client-go's metrics: their number by answer, duration, size and delay.

`HttpTransport` tells it of every request; the health server gives it out. Names, labels and buckets:
k8s.io/component-base/metrics/prometheus/restclient of v1.36.
"""

from collections.abc import Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from berth.kube.http.watcher import RequestWatcher
from berth.runtime.observing.tallies import CounterTally, HistogramTally

SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
BYTES = (64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0)
HOST, VERB = "host", "verb"


class RestClientMetrics(RequestWatcher, Collector):
    """Counts requests by the server's host and port."""

    def __init__(self) -> None:
        self.requests = CounterTally(
            "rest_client_requests", "[ALPHA] Requests, by status code, method and host.", ("code", "host", "method")
        )
        self.duration = HistogramTally(
            "rest_client_request_duration_seconds", "[ALPHA] Latency of requests.", SECONDS, (HOST, VERB)
        )
        self.sent = HistogramTally("rest_client_request_size_bytes", "[ALPHA] Sizes of requests.", BYTES, (HOST, VERB))
        self.received = HistogramTally(
            "rest_client_response_size_bytes", "[ALPHA] Sizes of answers.", BYTES, (HOST, VERB)
        )
        self.throttling = HistogramTally(
            "rest_client_rate_limiter_duration_seconds",
            "[ALPHA] Waits for the client's rate limit.",
            SECONDS,
            (HOST, VERB),
        )
        self.retries = CounterTally(
            "rest_client_request_retries", "[ALPHA] Requests made again, by the code before.", ("code", VERB, HOST)
        )

    def answered(self, method: str, host: str, code: str, seconds: float) -> None:
        """A request was answered, or failed (`<error>`)."""
        self.requests.add((code, host, method))
        self.duration.observe(seconds, (host, method))

    def sized(self, method: str, host: str, sent: int, received: int) -> None:
        """A request had such sizes."""
        self.sent.observe(sent, (host, method))
        self.received.observe(received, (host, method))

    def throttled(self, method: str, host: str, seconds: float) -> None:
        """A request waited for its turn."""
        self.throttling.observe(seconds, (host, method))

    def retried(self, method: str, host: str, code: str) -> None:
        """A request is made again."""
        self.retries.add((code, method, host))

    def collect(self) -> Iterator[Metric]:
        """For the scrape."""
        for tally in (self.requests, self.duration, self.sent, self.received, self.throttling, self.retries):
            yield from tally.collect()
