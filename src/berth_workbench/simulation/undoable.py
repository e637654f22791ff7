"""A simulated cluster on which things can be tried and taken back, one trial inside another.

Who plans in steps tries a step, looks at what came of it, and takes it back where it is no good. A copy of the cluster
for each trial would cost seconds where it is large, so the objects keep a journal instead: what each key held before
the trial. Taking back deletes and puts objects, of which the core hears as of any others.

What is taken back are the objects. Time has gone on, and what the core remembers of its own (where it begins to sample
nodes in a large cluster, which rows of its table were used) is not wound back; `begin` sets the dice.
"""

from typing import Any

from berth_workbench.simulation.cluster import SimulatedCluster

Key = tuple[str, str]
_ABSENT = object()


class _Journal(dict[Key, Any]):
    """The objects of a cluster by kind and key, and what they were before each trial that has begun."""

    def __init__(self) -> None:
        super().__init__()
        self.before: list[dict[Key, Any]] = []

    def __setitem__(self, key: Key, value: Any) -> None:
        self._note(key)
        super().__setitem__(key, value)

    def __delitem__(self, key: Key) -> None:
        self._note(key)
        super().__delitem__(key)

    def pop(self, key: Key, *default: Any) -> Any:
        self._note(key)
        return super().pop(key, *default)

    def _note(self, key: Key) -> None:
        if self.before and key not in self.before[-1]:
            self.before[-1][key] = self.get(key, _ABSENT)


class UndoableCluster(SimulatedCluster):
    """A simulated cluster with `begin`, and `undo` or `keep` for each of them."""

    @property
    def objects(self) -> _Journal:
        """Every object, by kind and `namespace/name` or name."""
        return self._objects

    @objects.setter
    def objects(self, _value: dict[Key, Any]) -> None:
        self._objects = _Journal()

    def begin(self, seed: int = 0) -> None:
        """Begin a trial; ties between nodes are broken as this seed says, so that the same trial ends the same."""
        self._objects.before.append({})
        self.rng.seed(seed)

    def keep(self) -> None:
        """End the innermost trial, and leave everything as it is."""
        before = self._objects.before.pop()
        if self._objects.before:
            for key, value in before.items():
                self._objects.before[-1].setdefault(key, value)

    @property
    def touched(self) -> dict[Key, Any]:
        """What each object that the innermost trial has touched was before; None where it was not there."""
        return {key: None if obj is _ABSENT else obj for key, obj in self._objects.before[-1].items()}

    def undo(self) -> None:
        """End the innermost trial, and put every object back as it was.

        Pods go first and come last: a pod that is deleted may change its claims, and a claim is put back after that.
        The journal goes on meanwhile, and so knows of these changes, too.
        """
        before = self._objects.before[-1]
        for kind, key in [each for each in before if each[0] == "Pod" and each in self._objects]:
            was, now = before[kind, key], self._objects[kind, key]
            if was is _ABSENT or (was.metadata.uid, was.spec.node_name) != (now.metadata.uid, now.spec.node_name):
                self.delete(kind, key)
        for each, was in list(before.items()):
            if was is _ABSENT and each in self._objects:
                self.delete(*each)
        for is_pod in (False, True):
            for each, was in list(before.items()):
                if (each[0] == "Pod") == is_pod and was is not _ABSENT and self._objects.get(each) is not was:
                    self.put(was)
                    if is_pod and was.spec.node_name:
                        self.messages.pop(each[1], None)
        self._objects.before.pop()
        self.publish_budgets()

    def undo_all(self) -> None:
        """End all trials that have begun, and put every object back as it was before the first."""
        while self._objects.before:
            self.undo()
