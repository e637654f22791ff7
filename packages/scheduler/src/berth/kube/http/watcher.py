"""The interface for observing each request to an API server: called by the transport, implemented by the metrics."""


class RequestWatcher:
    """Observes requests; does nothing by default. `host` is the server's host and port."""

    def answered(self, method: str, host: str, code: str, seconds: float) -> None:
        """One try was answered with this status, or broke off (`<error>`); seconds until the answer began."""

    def sized(self, method: str, host: str, sent: int, received: int) -> None:
        """A completely answered try had bodies of so many bytes."""

    def throttled(self, method: str, host: str, seconds: float) -> None:
        """A request has waited so long for the client-side rate limit."""

    def retried(self, method: str, host: str, code: str) -> None:
        """A request is made again because of this status."""
