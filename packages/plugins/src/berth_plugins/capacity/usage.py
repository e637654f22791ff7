"""What each namespace uses: the pods that are bound, and those for which a node has been chosen.

`Usage` is kept up to date pod by pod; `UsageWhatIf` is the same in a what-if, in which pods come and go.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from berth.plugin import PodInfo
from berth_plugins.capacity.amounts import Amounts, Excess, add, excesses, requests_of
from berth_plugins.capacity.elastic_quotas import QuotaBounds

NOTHING: Amounts = {}


class CountedPod(NamedTuple):
    """A pod that counts, and as how much."""

    namespace: str
    requests: Amounts


class Usage:
    """What is used, by namespace, and by all that have a quota together; and the quotas in force."""

    __slots__ = ("_bound", "_counted", "_used", "lent_to", "namespaces", "quotas", "total_least", "total_used")

    def __init__(self) -> None:
        self._bound: dict[str, CountedPod] = {}
        """The pods on nodes, by uid."""
        self._counted: dict[str, CountedPod] = {}
        """These, and the pods that are reserved."""
        self._used: dict[str, dict[str, int]] = {}
        self.quotas: Mapping[str, QuotaBounds] = {}
        """By namespace."""
        self.namespaces: frozenset[str] = frozenset()
        """Those that have a quota."""
        self.lent_to: frozenset[str] = frozenset()
        """Those that use more than their minimum, of any resource."""
        self.total_least: dict[str, int] = {}
        self.total_used: dict[str, int] = {}

    def put_quotas(self, quotas: Mapping[str, QuotaBounds]) -> None:
        """Have other quotas in force."""
        self.quotas = quotas
        self.total_least, self.total_used = {}, {}
        for namespace, bounds in quotas.items():
            add(self.total_least, bounds.least)
            add(self.total_used, self.of(namespace))
        self.namespaces = frozenset(quotas)
        self.lent_to = frozenset(filter(self._is_over_least, quotas))

    def _is_over_least(self, namespace: str) -> bool:
        return is_any(excesses(NOTHING, self.of(namespace), self.quotas[namespace].least))

    def of(self, namespace: str) -> Amounts:
        """Return what a namespace uses."""
        return self._used.get(namespace, NOTHING)

    def counts(self, uid: str) -> bool:
        """Say whether a pod counts."""
        return uid in self._counted

    def requests_of(self, pod: PodInfo) -> Amounts:
        """Return what a pod requests, as it is counted if it is."""
        found = self._counted.get(pod.uid)
        return requests_of(pod) if found is None else found.requests

    def bind(self, pod: PodInfo) -> None:
        """Count a pod that is on a node, as much as it requests now."""
        self._bound[pod.uid] = found = CountedPod(pod.namespace, requests_of(pod))
        self._count(pod.uid, found)

    def reserve(self, pod: PodInfo) -> None:
        """Count a pod for which a node was chosen."""
        if pod.uid not in self._bound:
            self._count(pod.uid, CountedPod(pod.namespace, requests_of(pod)))

    def unreserve(self, uid: str) -> None:
        """Count a pod no more that has lost its node, unless it is known to be bound by now."""
        if uid not in self._bound:
            self._count(uid, None)

    def remove(self, uid: str) -> None:
        """Count a pod no more that is gone."""
        self._bound.pop(uid, None)
        self._count(uid, None)

    def _count(self, uid: str, pod: CountedPod | None) -> None:
        before = self._counted.pop(uid, None)
        if pod is not None:
            self._counted[uid] = pod
        if before != pod:
            for each, sign in ((before, -1), (pod, 1)):
                if each is not None:
                    self._add(each, sign)

    def _add(self, pod: CountedPod, sign: int) -> None:
        used = self._used.setdefault(pod.namespace, {})
        add(used, pod.requests, sign)
        for name in [name for name, amount in used.items() if not amount]:
            del used[name]
        if not used:
            del self._used[pod.namespace]
        if pod.namespace in self.quotas:
            add(self.total_used, pod.requests, sign)
            if self._is_over_least(pod.namespace) != (pod.namespace in self.lent_to):
                self.lent_to ^= {pod.namespace}


class UsageWhatIf:
    """What is used if some pods come and others go, which have not (yet)."""

    __slots__ = ("_changes", "_moved", "_total_change", "_usage")

    def __init__(self, usage: Usage) -> None:
        self._usage = usage
        self._moved: dict[str, bool] = {}
        """The pods that have come or gone, by uid, and whether they count now."""
        self._changes: dict[str, dict[str, int]] = {}
        self._total_change: dict[str, int] = {}

    def clone(self) -> "UsageWhatIf":
        """Return a copy that goes its own way."""
        copy = UsageWhatIf(self._usage)
        copy._moved = dict(self._moved)
        copy._changes = {namespace: dict(amounts) for namespace, amounts in self._changes.items()}
        copy._total_change = dict(self._total_change)
        return copy

    def put(self, pod: PodInfo) -> None:
        """Count a pod, if it does not count yet."""
        self._move(pod, counts=True)

    def take(self, pod: PodInfo) -> None:
        """Count a pod no more, if it counts."""
        self._move(pod, counts=False)

    def _move(self, pod: PodInfo, *, counts: bool) -> None:
        if pod.namespace in self._usage.quotas and self._moved.get(pod.uid, self._usage.counts(pod.uid)) != counts:
            self._moved[pod.uid] = counts
            requests, sign = self._usage.requests_of(pod), 1 if counts else -1
            add(self._changes.setdefault(pod.namespace, {}), requests, sign)
            add(self._total_change, requests, sign)

    def used(self, namespace: str) -> Amounts:
        """Return what a namespace uses."""
        return _sum(self._usage.of(namespace), self._changes.get(namespace))

    def over_most(self, namespace: str, asked: Amounts) -> Iterator[Excess]:
        """Yield of what a namespace would use more than its maximum, with what is asked for."""
        most = self._usage.quotas[namespace].most
        return iter(()) if most is None else excesses(self.used(namespace), asked, most, is_closed=False)

    def over_least(self, namespace: str, asked: Amounts) -> Iterator[Excess]:
        """Yield of what a namespace would use more than its minimum, with what is asked for."""
        return excesses(self.used(namespace), asked, self._usage.quotas[namespace].least)

    def is_over_least(self, namespace: str) -> bool:
        """Say whether a namespace uses more than its minimum, of any resource."""
        return is_any(self.borrowed(namespace))

    def borrowed(self, namespace: str) -> Iterator[Excess]:
        """Yield of what a namespace uses more than its minimum."""
        return excesses(NOTHING, self.used(namespace), self._usage.quotas[namespace].least)

    def over_total(self, asked: Amounts) -> Iterator[Excess]:
        """Yield of what all quotas together would use more than the sum of their minimums, with what is asked for.

        Any resource that one of them uses counts.
        """
        used = _sum(self._usage.total_used, self._total_change)
        for found in excesses(NOTHING, _sum(used, asked), self._usage.total_least):
            of_it = used.get(found.resource, 0)
            yield found._replace(used=of_it, asked=found.asked - of_it)


def is_any(found: Iterator[Excess]) -> bool:
    """Say whether there is too much of anything."""
    return next(found, None) is not None


def _sum(used: Amounts, more: Amounts | None) -> Amounts:
    if not more:
        return used
    total = dict(used)
    add(total, more)
    return total
