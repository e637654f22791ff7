"""What a controller is, and the base class of those that work through a queue of keys.

The manager passes every change in the store to `handle`, and calls `step` as long as there is work. A controller never
waits, never reads a clock (it is given the time), and keeps no state that it could not rebuild from the store.
"""

import logging
from typing import Protocol

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.controllers.index import ObjectChange
from berth_cluster.controllers.workqueue import WorkQueue

logger = logging.getLogger(__name__)


class Controller(Protocol):
    """Something that brings the cluster closer to what the objects in the store ask for."""

    def handle(self, change: ObjectChange) -> None:
        """Note the work that a change causes; must not write to the store."""

    def pending(self, now_s: float) -> int:
        """How many pieces of work there are now."""

    def step(self, now_s: float) -> bool:
        """Do one piece of work; False when there is none now."""

    def next_deadline(self) -> float | None:
        """When there will be work, in seconds since the epoch: 0.0 means now, None not before the next change."""


class KeyedController:
    """A controller with a queue of keys, for each of which it calls `sync`.

    A key says only which object to look at, not what happened to it: `sync` compares what is with what should be. So
    several changes may be handled by one call, and a call too many does no harm.
    """

    __slots__ = ("queue",)

    name = "controller"
    kinds: frozenset[str] | None = None
    """The kinds of whose changes `handle` wants to hear; None for all."""

    def __init__(self) -> None:
        self.queue = WorkQueue()

    def sync(self, key: str, now_s: float) -> None:
        """Bring the cluster in line with the object of that key; a StoreError has it tried again with back-off."""
        raise NotImplementedError

    def pending(self, now_s: float) -> int:
        """How many keys wait to be looked at."""
        return self.queue.ready_count(now_s)

    def step(self, now_s: float) -> bool:
        """Look at the next key."""
        key = self.queue.pop(now_s)
        if key is None:
            return False
        try:
            self.sync(key, now_s)
        except StoreError as error:
            delay_s = self.queue.retry(key, now_s)
            logger.info("%s: %s: %s; trying again in %.3f s", self.name, key, error, delay_s)
        else:
            self.queue.forget(key)
        return True

    def next_deadline(self) -> float | None:
        """When the next key is due."""
        return self.queue.next_deadline()
