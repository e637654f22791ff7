"""A cluster in memory on which changes can be tried and undone, in nested trials.

A planner tries a step, looks at the result, and undoes it if it is no good; whoever asks one cluster many questions
undoes each answer. Copying a large cluster for each trial would take seconds, so the objects keep a journal instead:
what each key held before the trial. Undoing deletes and puts objects, which the core sees like any other change, and
then restores what the core remembered (`berth.core.rewinding`).

The invariant: a trial that was undone leaves no trace in what comes after it, so that each trial ends in the same way
whether it is the first, the last or the only one. Everything is restored except the clock. That moves on by whole
hours: what plugins remember for a while, such as a group that rests after a failure, must not leak from one trial into
the next.
"""

import math
from collections.abc import Mapping
from itertools import count
from typing import Any, NamedTuple

from berth.api.pod import Pod
from berth.core.rewinding import CoreMark, leave, remember, reserve_rows, rewind
from berth.core.virtual_cluster import VirtualCluster
from berth.state.pod_info import PodInfo

Key = tuple[str, str]
"""Kind, and `namespace/name` or name."""
HOUR_S = 3600.0
"""At least this much time passes before a trial begins; whole hours keep windows and ticks aligned."""
TAKEN_BACK = "the trial was taken back"
_ABSENT = object()


class _Journal(dict[Key, Any]):
    """The objects of a cluster by kind and key, and what they were before each open trial."""

    def __init__(self) -> None:
        super().__init__()
        self.before: list[dict[Key, Any]] = []
        self._places: dict[Key, int] = {}
        """A number for each object, lower for those that arrived earlier, even if a trial has moved them."""
        self._places_before: list[tuple[int, dict[Key, int]]] = []
        self._next = 0

    def __setitem__(self, key: Key, value: Any) -> None:
        self._note(key)
        if key not in self:
            self._places[key] = self._next
            self._next += 1
        super().__setitem__(key, value)

    def load(self, new: Mapping[Key, Any]) -> None:
        """Set objects that are not there yet, in bulk; no trial may be open."""
        assert not self.before, "nothing would be noted"
        self.update(new)
        self._places.update(zip(new, count(self._next), strict=False))
        self._next += len(new)

    def __delitem__(self, key: Key) -> None:
        self._note(key)
        super().__delitem__(key)

    def pop(self, key: Key, *default: Any) -> Any:
        self._note(key)
        return super().pop(key, *default)

    def in_order(self) -> list[Any]:
        """Return the objects in the order in which they arrived."""
        return [obj for _, obj in sorted(self.items(), key=lambda item: self._places[item[0]])]

    def stand_as(self, other: "_Journal") -> None:
        """Put the same objects, by key, in the order of another journal."""
        self._places, self._next = dict(other._places), other._next  # noqa: SLF001

    def begin(self) -> None:
        """From now on, note what each object was."""
        self.before.append({})
        self._places_before.append((self._next, {}))

    def end(self, *, is_undone: bool) -> dict[Key, Any]:
        """End the innermost trial and return what was noted; undone objects keep their old places in the order."""
        next_place, places = self._places_before.pop()
        if is_undone:
            self._next = next_place
            self._places.update(places)
        elif self._places_before:
            outer = self._places_before[-1][1]
            for key, place in places.items():
                outer.setdefault(key, place)
        return self.before.pop()

    def _note(self, key: Key) -> None:
        if self.before and key not in self.before[-1]:
            self.before[-1][key] = self.get(key, _ABSENT)
            if key in self:
                self._places_before[-1][1][key] = self._places[key]


class _Began(NamedTuple):
    """The state at the start of a trial that is not an object."""

    at: float
    core: CoreMark
    rng: tuple[Any, ...]
    others: Any
    """What the subclass remembers."""


class UndoableCluster(VirtualCluster):
    """A virtual cluster with `begin`, and `undo` or `keep` for each; no pod may be waiting for Permit at `begin`."""

    def __init__(self, **options: Any) -> None:
        """Make an empty one; `options` are those of `VirtualCluster`."""
        super().__init__(**options)
        self.objects: _Journal = _Journal()
        self._began: list[_Began] = []

    def begin(self) -> None:
        """Begin a trial."""
        others = self._remember()  # first, since it may store what is out of date
        self.objects.begin()
        self._began.append(_Began(self.now, remember(self.core), self.rng.getstate(), others))

    def keep(self) -> None:
        """End the innermost trial, and keep its changes."""
        self._began.pop()
        leave(self.core)
        before = self.objects.end(is_undone=False)
        if self.objects.before:
            for key, value in before.items():
                self.objects.before[-1].setdefault(key, value)
        else:
            self._kept_all()

    @property
    def is_tried_on(self) -> bool:
        """Whether a trial is open."""
        return bool(self._began)

    @property
    def touched(self) -> dict[Key, Any]:
        """What each object touched by the innermost trial was before; None if it did not exist."""
        return {key: None if obj is _ABSENT else obj for key, obj in self.objects.before[-1].items()}

    def undo(self) -> None:
        """End the innermost trial, and put everything back as it was.

        Pods go first and come back last: deleting a pod may change its claims, and a claim is put back after that. The
        journal keeps running meanwhile, and so sees these changes too.
        """
        before, began = self.objects.before[-1], self._began[-1]
        if self.core.unfinished:
            self._carry_out(self.core.call_off(TAKEN_BACK, self.now))
        waited = {queued.pod.key: queued.pod for queued in began.core.queue.pods()}
        for kind, key in [each for each in before if each[0] == "Pod" and each in self.objects]:
            was, now, pod = before[kind, key], self.objects[kind, key], waited.get(key)
            if pod is not None and pod.pod is was and now.spec.node_name and self._is_only_counted(was, now):
                self._take_off(pod)
            elif was is _ABSENT or (was.metadata.uid, was.spec.node_name) != (now.metadata.uid, now.spec.node_name):
                self.delete(kind, key)
        for each, was in list(before.items()):
            if was is _ABSENT and each in self.objects:
                self.delete(*each)
        reserve_rows(self.core, began.core)
        for is_pod in (False, True):
            for each, was in list(before.items()):
                if (each[0] == "Pod") == is_pod and was is not _ABSENT and self.objects.get(each) is not was:
                    self._put_back(was, began.others)
        self.objects.end(is_undone=True)
        self._began.pop()
        later_s = HOUR_S * (1 + math.ceil((self.now - began.at) / HOUR_S))
        self.now = began.at + later_s
        self.rng.setstate(began.rng)
        self._recall(began.others)
        rewind(self.core, began.core, self.now, later_s)

    def undo_all(self) -> None:
        """End all open trials, and put everything back as it was before the first."""
        while self._began:
            self.undo()

    def copy_into(self, other: "UndoableCluster") -> None:
        """Make an empty cluster of the same configuration equal to this one; open trials are not copied.

        What plugins remember is not copied, just as it is not undone. No pod may be waiting for Permit.
        """
        mark = remember(self.core)
        leave(self.core)
        table = self.core.cache.table
        other.now = self.now
        remember(other.core)  # `rewind` ends what this begins
        reserve_rows(other.core, mark)
        objects = self.objects.in_order()
        by_key = {obj.key: obj for obj in objects if isinstance(obj, Pod)}
        counted = [by_key.pop(pod.key) for row in mark.table.rows.values() for pod in table.pods[row].values()]
        for obj in (*(obj for obj in objects if not isinstance(obj, Pod)), *counted, *by_key.values()):
            other.put(obj)
        other.objects.stand_as(self.objects)
        other.rng.setstate(self.rng.getstate())
        rewind(other.core, mark, other.now, 0.0)

    def _is_only_counted(self, was: Pod, now: Pod) -> bool:
        """Whether the only thing that happened to a pending pod is that it is now counted on a node."""
        is_same = was.metadata is now.metadata and self.core.intake.handlers is None
        return is_same and not (was.spec.volumes or was.spec.resource_claims)

    def _take_off(self, pod: PodInfo) -> None:
        """Take a pod off its node. What the queue remembers puts it back into the queue, as the pod that it was."""
        self.objects["Pod", pod.key] = pod.pod
        self.core.intake.take_off(pod)

    def _put_back(self, obj: Any, others: Any) -> None:
        """Put an object back as it was."""
        self.put(obj)

    def _remember(self) -> Any:
        """Return what a subclass remembers besides its objects."""

    def _recall(self, others: Any) -> None:
        """Restore what a subclass remembered."""

    def _kept_all(self) -> None:
        """Forget what only undoing would need: no trial is open any more."""
