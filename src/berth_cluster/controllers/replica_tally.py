"""How many pods of a ReplicaSet are active, ready and fully labelled, kept up to date pod by pod.

A ReplicaSet of ten thousand changes its status with nearly every pod that starts; counting them all each time
would take quadratic time. Used by the ReplicaSet controller alone.
"""

from typing import NamedTuple

from berth.api.selectors import Selector
from berth_cluster.controllers.meta import JsonObject, int_of, labels_of
from berth_cluster.controllers.pods import is_active, ready_since
from berth_cluster.controllers.selectors import selector_of


class _Facts(NamedTuple):
    """What one pod counts for."""

    active: bool
    ready: bool
    labelled: bool


_NOTHING = _Facts(False, False, False)


class ReplicaTally:
    """The counts of one ReplicaSet, as long as its spec stays the same."""

    __slots__ = ("_facts", "_selector", "_template_labels", "active", "generation", "labelled", "ready", "strays")

    def __init__(self, replica_set: JsonObject) -> None:
        self.generation = int_of(replica_set["metadata"], "generation")
        self.active = 0
        self.ready = 0
        self.labelled = 0
        self.strays: dict[str, None] = {}
        """Keys of own pods that the selector no longer matches."""
        self._facts: dict[str, _Facts] = {}
        self._selector: Selector = selector_of(replica_set)
        template = replica_set["spec"]["template"].get("metadata") or {}
        self._template_labels: dict[str, str] = template.get("labels") or {}

    def put(self, key: str, pod: JsonObject) -> None:
        """Count a pod as it is now."""
        labels = labels_of(pod)
        if self._selector.matches(labels):
            self.strays.pop(key, None)
            active = is_active(pod)
            ready = active and ready_since(pod) is not None
            self._count(key, _Facts(active, ready, active and self._template_labels.items() <= labels.items()))
        else:
            self.strays[key] = None
            self._count(key, _NOTHING)

    def drop(self, key: str) -> None:
        """A pod is gone, or belongs to somebody else."""
        self.strays.pop(key, None)
        self._count(key, _NOTHING)
        self._facts.pop(key, None)

    def _count(self, key: str, facts: _Facts) -> None:
        before = self._facts.get(key, _NOTHING)
        self.active += facts.active - before.active
        self.ready += facts.ready - before.ready
        self.labelled += facts.labelled - before.labelled
        self._facts[key] = facts
