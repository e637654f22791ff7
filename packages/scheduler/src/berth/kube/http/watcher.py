"""Who wants to know of each request to an API server: told by the transport, implemented where metrics are kept."""


class RequestWatcher:
    """Is told of requests; does nothing by default. `host` is the server's host and port."""

    def answered(self, method: str, host: str, code: str, seconds: float) -> None:
        """One try was answered with this status, or broke off (`<error>`); seconds until the answer began."""

    def sized(self, method: str, host: str, sent: int, received: int) -> None:
        """A try that was answered whole had bodies of so many bytes."""

    def throttled(self, method: str, host: str, seconds: float) -> None:
        """A request has waited so long for the client-side rate limit."""

    def retried(self, method: str, host: str, code: str) -> None:
        """A request is made again because of this status."""
