"""Events that controllers and kubelets leave on the objects they work for, as `kubectl describe` shows them.

They are stored as `v1` Events. Events on one object are limited as upstream's event correlator limits them: a burst,
then one more every few minutes. Used through `client.Client.events`.
"""

import logging

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.meta import Object, format_time, uid_of
from berth_cluster.apimachinery.resource_types import resource_of
from berth_cluster.storage.store import Store

logger = logging.getLogger(__name__)

BURST = 25
REFILL_S = 300.0
MAX_TRACKED = 4096


class StoreEventRecorder:
    """Writes Events into the store, within a limit for each component and object."""

    __slots__ = ("_budgets", "_count", "_store")

    def __init__(self, store: Store) -> None:
        self._store = store
        self._budgets: dict[str, tuple[float, float]] = {}
        self._count = 0

    def record(
        self, component: str, obj: Object, reason: str, message: str, now_s: float, *, warns: bool = False
    ) -> None:
        """Record that something went as it should, or that it did not."""
        if not self._take(f"{component}/{uid_of(obj)}", now_s):
            return
        self._count += 1
        metadata = obj["metadata"]
        namespace = metadata.get("namespace") or "default"
        name = f"{metadata['name']}.{int(now_s * 1000):x}{self._count:06x}"
        event = {
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {
                "apiVersion": obj["apiVersion"],
                "kind": obj["kind"],
                "name": metadata["name"],
                "namespace": metadata.get("namespace") or "",
                "uid": uid_of(obj),
                "resourceVersion": metadata.get("resourceVersion", ""),
            },
            "type": "Warning" if warns else "Normal",
            "reason": reason,
            "message": message,
            "source": {"component": component},
            "reportingComponent": component,
            "firstTimestamp": format_time(now_s),
            "lastTimestamp": format_time(now_s),
            "count": 1,
        }
        try:
            self._store.create(resource_of("Event"), namespace, event)
        except StoreError as error:
            logger.debug("event %s on %s %s was refused: %s", reason, obj["kind"], metadata["name"], error)

    def _take(self, key: str, now_s: float) -> bool:
        """Whether there may be one more event: a token bucket of `BURST` tokens, refilled by one every `REFILL_S`."""
        if len(self._budgets) > MAX_TRACKED:
            self._budgets.clear()
        tokens, since_s = self._budgets.get(key, (float(BURST), now_s))
        tokens = min(float(BURST), tokens + max(0.0, now_s - since_s) / REFILL_S)
        allowed = tokens >= 1.0
        self._budgets[key] = (tokens - 1.0 if allowed else tokens, now_s)
        return allowed
