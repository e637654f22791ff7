"""How a long computation tells how far it is, and is told to end."""

from collections.abc import Callable

Watch = Callable[[int], bool]
"""Is told how many steps have been done since it was told last; answers whether to stop."""


class StoppedError(Exception):
    """Somebody has asked to stop, in the middle of something that cannot be kept in part."""


def unwatched(_steps: int) -> bool:
    """Watch nothing, and never stop."""
    return False


def stepping(watch: Watch) -> Callable[[int], None]:
    """Return what tells a watch of steps, and raises `StoppedError` where it says so."""

    def step(steps: int) -> None:
        if watch(steps):
            raise StoppedError

    return step
