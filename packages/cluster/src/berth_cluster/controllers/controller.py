"""What a controller is, and the base class of those that work through a queue of objects.

The manager passes every change in the store to `handle`, and calls `step` as long as there is work. A controller never
waits, never reads a clock (it is given the time), and keeps no state that it could not rebuild from the store.
"""

import logging
from typing import Protocol

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.meta import Object, key_of
from berth_cluster.controllers.client import Client
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
    """A controller with a queue of objects, for each of which it calls `sync`.

    The queue holds `Kind key`, which says only what to look at, not what happened to it: `sync` compares what is with
    what should be. So several changes may be handled by one call, and a call too many does no harm.
    """

    __slots__ = ("client", "index", "queue")

    name = "controller"
    component = ""
    """Whose events they are that the controller leaves, if they are not under its name."""
    kinds: frozenset[str] | None = None
    """The kinds of whose changes `handle` wants to hear; None for all."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.index = client.index
        self.queue = WorkQueue()

    def handle(self, change: ObjectChange) -> None:
        """Look at what is new or has changed; controllers that have to look at something else say so."""
        if change.type != "DELETED":
            self.look_at(change.obj)

    def sync(self, obj: Object, now_s: float) -> None:
        """Bring the cluster in line with an object; a StoreError has it tried again with back-off."""
        raise NotImplementedError

    def sync_gone(self, kind: str, key: str, now_s: float) -> None:
        """Clean up after an object that was to be looked at and is not there; most controllers have nothing to do."""

    def look_at(self, obj: Object, at_s: float = 0.0) -> None:
        """Have an object looked at: now, or when its time has come."""
        self.look_up(obj["kind"], key_of(obj), at_s)

    def look_up(self, kind: str, key: str, at_s: float = 0.0) -> None:
        """Have the object of that kind and key looked at."""
        if at_s:
            self.queue.add_at(f"{kind} {key}", at_s)
        else:
            self.queue.add(f"{kind} {key}")

    def tell(self, obj: Object, reason: str, message: str, now_s: float, *, warns: bool = False) -> None:
        """Leave an event on an object."""
        self.client.events.record(self.component or self.name, obj, reason, message, now_s, warns=warns)

    def pending(self, now_s: float) -> int:
        """How many objects wait to be looked at."""
        return self.queue.ready_count(now_s)

    def step(self, now_s: float) -> bool:
        """Look at the next object."""
        entry = self.queue.pop(now_s)
        if entry is None:
            return False
        kind, _, key = entry.partition(" ")
        obj = self.index.get(kind, key)
        try:
            if obj is not None:
                self.sync(obj, now_s)
            else:
                self.sync_gone(kind, key, now_s)
        except StoreError as error:
            delay_s = self.queue.retry(entry, now_s)
            logger.info("%s: %s: %s; trying again in %.3f s", self.name, entry, error, delay_s)
        else:
            self.queue.forget(entry)
        return True

    def next_deadline(self) -> float | None:
        """When the next object is due."""
        return self.queue.next_deadline()
