"""How many pods of a kind run on each row, for plugins' questions about other pods.

Two questions, both answered by an int64 column that is kept up to date pod by pod:
- how many running pods belong to this group (`group`): an incoming pod's selectors, counted over running pods;
- which terms do running pods carry (`terms`, `matching_terms`): their (anti-)affinity terms, and the weights they
  give them.
Pods of one namespace and one set of labels are one `PodKind`: selectors are matched against kinds, not pods, and only
those that a `SelectorIndex` cannot rule out. Groups that nobody asks for any more are forgotten; a forgotten one is
counted afresh when asked for.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.api.recent import Recent, json_size
from berth.api.selectors import EVERYTHING, NOTHING, Selector, SelectorError
from berth.state.pod_info import AffinityTerm, Labelled, PodInfo
from berth.state.selector_index import SelectorIndex, demanded
from berth.state.topology import RowCounts

Int64 = NDArray[np.int64]
Namespaces = Mapping[str, Mapping[str, str]]
"""Labels by namespace, of the namespaces that are known."""

MAX_GROUPS = 1024
"""How many groups are kept; each costs 8 bytes a node."""
GROUPED_BYTES = 2 << 20
"""How large the selectors of these groups may be, in bytes of JSON."""
MAX_MATCHES = 4096
"""For how many kinds of pods the carried terms that select them are remembered."""
SPARE_TERMS = 64
"""How many terms beyond twice those that are carried a log of terms may hold before it is rebuilt."""
SPARE_BYTES = 64 << 10
"""The same for their size, in bytes of JSON."""
NO_LABELS: Mapping[str, str] = {}


class LabelledPod(NamedTuple):
    """What selectors see of a pod."""

    namespace: str
    labels: Mapping[str, str]


class SelectorGroup(NamedTuple):
    """A set of pods: those of a namespace (listed, or by its labels) that match all of `selectors`."""

    namespaces: frozenset[str]
    selectors: tuple[Selector, ...]
    namespace_selector: Selector = NOTHING
    terminating: bool = True
    """Whether pods that are being deleted count."""

    def label_selectors(self) -> Iterable[Selector]:
        """Return the selectors of labels that each pod of the group matches."""
        return self.selectors

    def scope(self) -> frozenset[str] | None:
        """Return the only namespaces where pods of the group may be, or None where namespaces' labels decide."""
        return self.namespaces if self.namespace_selector.nothing else None

    def goes_by_labels(self) -> bool:
        """Say whether namespaces' labels decide which pods are meant."""
        return not self.namespace_selector.nothing

    def selects(self, pod: Labelled, namespaces: Namespaces) -> bool:
        """Say whether the pod belongs to the set, whether or not it is being deleted."""
        if pod.namespace not in self.namespaces and not _selected(self.namespace_selector, pod.namespace, namespaces):
            return False
        return all(selector.matches(pod.labels) for selector in self.selectors)


class TermGroup(NamedTuple):
    """Several affinity terms of an incoming pod that must all match one pod, as a group of pods."""

    terms: tuple[AffinityTerm, ...]
    terminating: bool = True

    def label_selectors(self) -> Iterable[Selector]:
        """Return the selectors of labels that each pod of the group matches."""
        return (term.selector for term in self.terms)

    def scope(self) -> frozenset[str] | None:
        """Return the only namespaces where pods of the group may be, or None where namespaces' labels decide."""
        listed = [term.namespaces for term in self.terms if term.namespace_selector.nothing]
        return listed[0] if listed else None

    def goes_by_labels(self) -> bool:
        """Say whether namespaces' labels decide for at least one of the terms which pods are meant."""
        return any(not term.namespace_selector.nothing for term in self.terms)

    def selects(self, pod: Labelled, namespaces: Namespaces) -> bool:
        """Say whether the pod matches every term."""
        return all(self._matches(term, pod, namespaces) for term in self.terms)

    @staticmethod
    def _matches(term: AffinityTerm, pod: Labelled, namespaces: Namespaces) -> bool:
        by_name = pod.namespace in term.namespaces
        return (by_name or _selected(term.namespace_selector, pod.namespace, namespaces)) and term.selector.matches(
            pod.labels
        )


def _selected(selector: Selector, namespace: str, namespaces: Namespaces) -> bool:
    """Say whether a namespace selector selects a namespace; an unknown one only where it selects all."""
    if selector.nothing:
        return False
    labels = namespaces.get(namespace)
    return selector == EVERYTHING if labels is None else selector.matches(labels)


class TermKind(NamedTuple):
    """One of the four kinds of (anti-)affinity terms by which a running pod refers to others."""

    name: str
    of: Callable[[PodInfo], Iterable[tuple[AffinityTerm, int]]]


def _required(terms: Iterable[AffinityTerm]) -> Iterator[tuple[AffinityTerm, int]]:
    return ((term, 1) for term in terms)


REQUIRED_AFFINITY = TermKind("required affinity", lambda pod: _required(pod.required_affinity_terms))
REQUIRED_ANTI_AFFINITY = TermKind("required anti-affinity", lambda pod: _required(pod.required_anti_affinity_terms))
PREFERRED_AFFINITY = TermKind("preferred affinity", lambda pod: pod.preferred_affinity_terms)
PREFERRED_ANTI_AFFINITY = TermKind("preferred anti-affinity", lambda pod: pod.preferred_anti_affinity_terms)
TERM_KINDS = (REQUIRED_AFFINITY, REQUIRED_ANTI_AFFINITY, PREFERRED_AFFINITY, PREFERRED_ANTI_AFFINITY)


class PodKind:
    """Running pods that no selector can tell apart: how many are on each row, and the groups that count them."""

    __slots__ = ("groups", "pod", "rows", "terminating")

    def __init__(self, pod: PodInfo) -> None:
        self.pod = LabelledPod(pod.namespace, pod.labels)
        """What they all have in common, to match selectors against."""
        self.rows: dict[int, int] = {}
        self.terminating: dict[int, int] = {}
        self.groups: list[_Group] = []

    def add(self, row: int, pod: PodInfo, sign: int) -> None:
        """Count one pod on a row, or uncount it."""
        _change(self.rows, row, sign)
        if pod.is_terminating:
            _change(self.terminating, row, sign)
        for group in self.groups:
            if group.group.terminating or not pod.is_terminating:
                group.add(row, sign)


def _change(counts: dict[int, int], row: int, sign: int) -> None:
    count = counts.get(row, 0) + sign
    if count:
        counts[row] = count
    else:
        del counts[row]


class _Group(RowCounts):
    __slots__ = ("group",)

    def __init__(self, group: SelectorGroup | TermGroup, capacity: int) -> None:
        super().__init__(capacity)
        self.group = group

    def take(self, kind: PodKind) -> None:
        kind.groups.append(self)
        self.add_all(kind.rows)
        # `rows` includes pods that are being deleted; a group that does not count them subtracts them again.
        if not self.group.terminating:
            for row, count in kind.terminating.items():
                self.add(row, -count)


class CarriedTerm(RowCounts):
    """An (anti-)affinity term that running pods carry, and the weights they give it, summed by row."""

    __slots__ = ("carriers", "size", "term")

    def __init__(self, term: AffinityTerm, capacity: int) -> None:
        super().__init__(capacity)
        self.term = term
        self.size = json_size(term)
        self.carriers = 0

    @property
    def weights(self) -> Int64:
        """The weights by row; do not write to it."""
        return self.counts


class _Terms:
    """The carried terms of one kind, and which of them select which kind of pod.

    `_log` holds them in order of appearance, so that a remembered match only has to look at the terms that came since.
    A term that no pod carries any more stays in the log, and in remembered matches, until the log is rebuilt; if a pod
    carries it again, it is a new `CarriedTerm`. So a term found there counts only while it has carriers.
    """

    __slots__ = ("_by_label", "_bytes", "_live_bytes", "_log", "_matches", "live")

    def __init__(self) -> None:
        self.live: dict[AffinityTerm, CarriedTerm] = {}
        self._by_label: SelectorIndex[CarriedTerm] = SelectorIndex()
        """The terms of `live`, by a label that they demand."""
        self._log: list[CarriedTerm] = []
        self._bytes = self._live_bytes = 0
        """The size of the terms in the log, and of those in `live`."""
        self._matches: Recent[Hashable, tuple[int, list[CarriedTerm]]] = Recent(MAX_MATCHES)

    def carry(self, term: AffinityTerm, row: int, sign: int, weight: int, capacity: int) -> bool:
        """Count a pod that carries a term, or uncount it; say whether it is the first, or was the last."""
        carried = self.live.get(term)
        is_first = carried is None
        if carried is None:
            carried = self.live[term] = CarriedTerm(term, capacity)
            self._log.append(carried)
            self._bytes += carried.size
            self._live_bytes += carried.size
            self._by_label.add(carried, (term.selector,))
        carried.add(row, sign * weight)
        carried.carriers += sign
        if not carried.carriers:
            del self.live[term]
            self._by_label.remove(carried)
            self._live_bytes -= carried.size
            # Rebuilding the log costs as much as there are live terms, and at least as many have gone since the last
            # time: so each term that goes pays for a constant part of it.
            is_long = len(self._log) > 2 * len(self.live) + SPARE_TERMS
            if is_long or self._bytes > 2 * self._live_bytes + SPARE_BYTES:
                self._log = list(self.live.values())
                self._bytes = self._live_bytes
                self.forget_matches()
            return True
        return is_first

    def matching(self, pod: PodInfo, namespace_labels: Mapping[str, str]) -> Sequence[CarriedTerm]:
        if not self.live:
            return ()
        remembered = self._matches.get(pod.label_key)
        # The remembered list holds every term of `_log[:position]` that matches the pod; only later ones are untried.
        position, matching = (0, []) if remembered is None else remembered
        if position < len(self._log):
            is_known = remembered is not None
            # For a new kind of pod, the index rules out most terms; for a known one, only the new terms need trying.
            untried = iter(self._log[position:]) if is_known else self._by_label.candidates(pod.labels)
            matching = matching + [carried for carried in untried if carried.term.matches(pod, namespace_labels)]
            if not pod.shape.is_large:
                size = pod.shape.size + 8 * len(matching)
                self._matches.put(pod.label_key, (len(self._log), matching), size)
        return [carried for carried in matching if carried.carriers]

    def forget_matches(self) -> None:
        self._matches.clear()


class PodIndex:
    """Group counts and carried terms over all rows; `pods` yields all of them, for `validate`."""

    def __init__(self, capacity: int, pods: Callable[[], Iterable[tuple[int, PodInfo]]]) -> None:
        self.capacity = capacity
        self.version = 0
        """Grows with every pod counted or uncounted, and with namespaces' labels."""
        self.terms_version = 0
        """Grows whenever running pods begin or cease to carry a term, and with namespaces' labels: while it stays, the
        same terms select the same pods. How many pods carry each is not part of it."""
        self._pods = pods
        self._kinds: dict[str, dict[Hashable, PodKind]] = {}
        self._groups: Recent[SelectorGroup | TermGroup, _Group] = Recent(MAX_GROUPS, GROUPED_BYTES)
        self._groups_by_label: SelectorIndex[_Group] = SelectorIndex()
        self._terms: dict[str, _Terms] = {kind.name: _Terms() for kind in TERM_KINDS}
        self._namespaces: dict[str, Mapping[str, str]] = {}

    def group(self, group: SelectorGroup | TermGroup) -> RowCounts:
        """Return, by row and by domain, how many pods of the group run there; do not change it."""
        found = self._groups.get(group)
        if found is not None:
            return found
        found = _Group(group, self.capacity)
        self._groups_by_label.add(found, group.label_selectors())
        for kind in self._candidates(group):
            if group.selects(kind.pod, self._namespaces):
                found.take(kind)
        for dropped in self._groups.put(group, found, json_size(group)):
            self._drop(dropped)
        return found

    def terms(self, kind: TermKind) -> Iterable[CarriedTerm]:
        """Return the distinct terms of a kind that running pods carry."""
        return self._terms[kind.name].live.values()

    def matching_terms(self, kind: TermKind, pod: PodInfo) -> Sequence[CarriedTerm]:
        """Return the terms of a kind that running pods carry and that select `pod`."""
        terms = self._terms[kind.name]
        return terms.matching(pod, self.namespace_labels(pod.namespace)) if terms.live else ()

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace; none where it is not known."""
        return self._namespaces.get(namespace, NO_LABELS)

    @property
    def namespaces(self) -> Namespaces:
        """The labels of all namespaces that are known."""
        return self._namespaces

    def set_namespace(self, namespace: str, labels: Mapping[str, str] | None) -> None:
        """Note a namespace's labels, or that it is gone; groups that depend on them start over."""
        if labels == self._namespaces.get(namespace):
            return
        if labels is None:
            self._namespaces.pop(namespace, None)
        else:
            self._namespaces[namespace] = labels
        # Terms and groups that depend on namespaces' labels may now mean other pods, so whatever was computed with them
        # is stale.
        self.version += 1
        self.terms_version += 1
        # Groups that list their namespaces select the same pods as before, and keep their counts.
        for group in [group for group in self._groups.values() if group.group.goes_by_labels()]:
            self._groups.pop(group.group)
            self._drop(group)
        for terms in self._terms.values():
            terms.forget_matches()

    def add_pod(self, row: int, pod: PodInfo) -> None:
        """Count a pod on a row."""
        self._count(row, pod, 1)

    def add_alike(self, pod: PodInfo, rows: Sequence[int]) -> None:
        """Count a pod on each of these rows: all have the shape of this one, and are being deleted if it is."""
        self.version += len(rows)
        kind = self._kind_of(pod)
        if kind.groups or pod.is_terminating:
            for row in rows:
                kind.add(row, pod, 1)
        else:
            for row in rows:
                kind.rows[row] = kind.rows.get(row, 0) + 1
        if pod.has_pod_affinity:
            self._carry_terms(rows, pod, 1)

    def remove_pod(self, row: int, pod: PodInfo) -> None:
        """Take a pod off a row."""
        self._count(row, pod, -1)

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        for group in self._groups.values():
            group.grow(capacity)
        for terms in self._terms.values():
            for carried in terms.live.values():
                carried.grow(capacity)
        self.capacity = capacity

    def validate(self) -> None:
        """Count everything again; raise AssertionError if anything differs. For tests."""
        afresh = PodIndex(self.capacity, self._pods)
        afresh._namespaces = self._namespaces
        for row, pod in self._pods():
            afresh.add_pod(row, pod)
        for group in self._groups.values():
            assert (afresh.group(group.group).counts == group.counts).all(), f"group {group.group} is miscounted"
        for kind in TERM_KINDS:
            found = {carried.term: carried.weights.tolist() for carried in self.terms(kind)}
            expected = {carried.term: carried.weights.tolist() for carried in afresh.terms(kind)}
            assert found == expected, f"terms of {kind.name} are miscounted"

    def _count(self, row: int, pod: PodInfo, sign: int) -> None:
        self.version += 1
        kind = self._kind_of(pod)
        kind.add(row, pod, sign)
        # Labels come and go with every rollout (pod-template-hash); kinds without pods would still be matched against
        # each new group.
        if not kind.rows:
            kinds = self._kinds[pod.namespace]
            del kinds[pod.label_key]
            if not kinds:
                del self._kinds[pod.namespace]
        if pod.has_pod_affinity:
            self._carry_terms((row,), pod, sign)

    def _kind_of(self, pod: PodInfo) -> PodKind:
        kinds = self._kinds.setdefault(pod.namespace, {})
        kind = kinds.get(pod.label_key)
        if kind is None:
            kind = kinds[pod.label_key] = self._new_kind(pod)
        return kind

    def _new_kind(self, pod: PodInfo) -> PodKind:
        kind = PodKind(pod)
        candidates = self._groups_by_label.candidates(pod.labels)
        kind.groups += [group for group in candidates if group.group.selects(pod, self._namespaces)]
        return kind

    def _carry_terms(self, rows: Sequence[int], pod: PodInfo, sign: int) -> None:
        for term_kind in TERM_KINDS:
            try:
                carried = list(term_kind.of(pod))
            except SelectorError:
                continue  # the API server refuses such pods; the terms of one that got through select nothing
            terms = self._terms[term_kind.name]
            for row in rows:
                for term, weight in carried:
                    if terms.carry(term, row, sign, weight, self.capacity):
                        self.terms_version += 1

    def _candidates(self, group: SelectorGroup | TermGroup) -> Iterable[PodKind]:
        """Return the kinds of pods that may be in a group: all that are, and perhaps some that are not."""
        kinds = self._kinds_in(group.scope())
        label = next((label for selector in group.label_selectors() for label in demanded(selector)), None)
        if label is None:
            return kinds
        # Comparing one label costs a tenth of matching the selectors, and rules out nearly everything.
        key, value = label
        return [kind for kind in kinds if kind.pod.labels.get(key) == value]

    def _kinds_in(self, scope: frozenset[str] | None) -> Iterator[PodKind]:
        for namespace in self._kinds if scope is None else scope:
            yield from self._kinds.get(namespace, {}).values()

    def _drop(self, group: _Group) -> None:
        self._groups_by_label.remove(group)
        for kind in self._kinds_in(group.group.scope()):
            if group in kind.groups:
                kind.groups.remove(group)
