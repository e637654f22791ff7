"""Which objects of a kind select an object by its labels: the ReplicaSets of an orphaned pod, the budgets of a pod."""

from collections.abc import Iterator

from berth.api.selectors import Selector
from berth_cluster.apimachinery.meta import Object, key_of, labels_of
from berth_cluster.controllers.index import ObjectChange


class SelectorBook:
    """The selectors of the objects of one kind, by namespace."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Selector]] = {}

    def put(self, owner: Object, selector: Selector) -> None:
        """Note what an object selects now."""
        self._known.setdefault(owner["metadata"]["namespace"], {})[key_of(owner)] = selector

    def drop(self, owner: Object) -> None:
        """Forget an object that is gone."""
        namespace = owner["metadata"]["namespace"]
        known = self._known.get(namespace, {})
        known.pop(key_of(owner), None)
        if not known:
            self._known.pop(namespace, None)

    def keys(self, namespace: str) -> Iterator[str]:
        """The keys of all in a namespace."""
        return iter(self._known.get(namespace, ()))

    def selecting(self, obj: Object) -> Iterator[str]:
        """The keys of those that select an object of their namespace."""
        for key, selector in self._known.get(obj["metadata"]["namespace"], {}).items():
            if selector.matches(labels_of(obj)):
                yield key

    def concerned(self, change: ObjectChange) -> dict[str, None]:
        """The keys of those that select what has changed, or did so before."""
        if change.obj["metadata"]["namespace"] not in self._known:  # asked for each change: mostly there are none
            return {}
        return {key: None for obj in (change.old, change.obj) if obj is not None for key in self.selecting(obj)}
