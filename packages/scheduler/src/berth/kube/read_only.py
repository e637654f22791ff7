"""A transport that reads but never writes: given to an observer, so that nothing it does can change a cluster."""

from typing import Any, NoReturn

from berth.kube.transport import Transport


class WriteRefusedError(RuntimeError):
    """A process that only observes was about to write: a bug."""


class ReadOnlyTransport:
    """Passes reading on, and refuses the rest before a request is made."""

    __slots__ = ("close", "get", "list", "read", "watch")

    def __init__(self, inner: Transport) -> None:
        self.get, self.list, self.watch = inner.get, inner.list, inner.watch
        self.read, self.close = inner.read, inner.close

    async def create(self, *given: Any, **options: Any) -> NoReturn:
        """Refuse to create an object, a lease and an event among them."""
        raise _refused("create", given)

    async def update(self, *given: Any, **options: Any) -> NoReturn:
        """Refuse to replace an object."""
        raise _refused("update", given)

    async def patch(self, *given: Any, **options: Any) -> NoReturn:
        """Refuse to change an object."""
        raise _refused("patch", given)

    async def delete(self, *given: Any, **options: Any) -> NoReturn:
        """Refuse to delete an object."""
        raise _refused("delete", given)

    async def bind(self, *given: Any, **options: Any) -> NoReturn:
        """Refuse to bind a pod."""
        raise _refused("bind", given)


def _refused(verb: str, given: tuple[Any, ...]) -> WriteRefusedError:
    return WriteRefusedError(f"an observer was about to {verb} {given[0] if given else 'something'}")
