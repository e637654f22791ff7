"""Plugins that are drawn by lot: their answers are a checksum of all that they say they depend on.

So an answer changes, most likely, with each thing it may depend on, and one that is kept a moment too long is wrong.
All forms of a plugin are made from the same function. What a column says of rows that hold no node is nonsense.
"""

from random import Random
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from berth.api.meta import LabelSelector
from berth.api.selectors import compile_selector
from berth.framework.interface import DomainCodes, FilterColumn, Narrowed, OverDomains, PreFilterResult, RowLoad
from berth.framework.promises import Dependencies, Dependency, Objects, Promises
from berth.framework.status import SKIP, Status, error, unresolvable, unschedulable
from berth.state.label_index import ABSENT
from berth.state.pod_index import SelectorGroup
from berth.state.pod_info import LABELS, REQUESTS
from berth.state.topology import Topologies

KINDS = ("PriorityClass", "StorageClass")
ZONE = "zone"
ALWAYS, OFTEN = 8, 6
"""Of so many answers a filter lets so many pass."""


class Habits(NamedTuple):
    """How one plugin is."""

    name: str
    reads: tuple[str, ...] = ("app",)
    """The labels of the pod that its answers are made from, and `cpu`."""
    filter_on: Dependencies | None = None
    """What its filter depends on; None where it has none."""
    score_on: Dependencies | None = None
    filter_by: str = "checksum"
    """`checksum`, `load` (as much as pods take together), `mates` (pods of the same app on the node), `both`,
    `followed` (the same mates, from what PreFilter has prepared), or `zone` (mates in the zone)."""
    score_by: str = "checksum"
    """`checksum`, `zone`, or `left` (which nodes are left)."""
    filter_forms: frozenset[str] = frozenset()
    """Of `columns`, `row` and `domains`."""
    score_forms: frozenset[str] = frozenset()
    plain_score: bool = True
    normalizes: str = ""
    """`up` or `down`, or nothing."""
    before: str = ""
    """What PreFilter does: `skips`, `skips while` (some object stays as it is), `rejects`, `narrows`."""
    before_score: str = ""
    """What PreScore does: `skips`, `skips while`."""
    when_skipped: int | None = None
    ignores: frozenset[str] = frozenset()
    is_signed: bool = True
    sees_kinds: bool = False
    """Whether it says which nodes it cannot tell apart."""
    reserves: bool = False
    narrows: bool = False
    levels: int = 5
    """How many different scores it gives."""
    errs: bool = False
    """Whether it gives errors and scores out of range now and then."""
    weight: int = 1


def some_profile(rng: Random, *, is_tame: bool = False) -> list[Habits]:
    """Draw the plugins of a profile. What tame ones say can always be kept, and goes into sums that are kept."""
    names, family = ("A", "B", "C", "D")[: rng.randint(1, 4)], rng.random()
    if family < 0.35 and not is_tame:
        return [_wild_habits(rng, name) for name in names]
    tame = [_tame_habits(rng, name) for name in names]
    return [*tame[:3], _zone_scorer(rng, "Z")] if family > 0.8 else tame


def _wild_habits(rng: Random, name: str) -> Habits:
    filters, scores = rng.choice(((True, True), (True, True), (True, False), (False, True)))
    forms = lambda: frozenset(rng.choice(((), ("columns",), ("columns", "row"), ("columns", "row"))))  # noqa: E731
    made = Habits(
        name,
        reads=rng.choice((("app",), ("app",), (), ("app", "tier"), ("app", "index"), ("cpu",))),
        filter_on=_dependencies(rng) if filters else None,
        score_on=_dependencies(rng) if scores else None,
        filter_forms=forms(),
        score_forms=forms(),
        normalizes=rng.choice(("", "", "up", "down")),
        is_signed=rng.random() < 0.9,
        levels=rng.choice((1, 2, 5, 101)),
        errs=rng.random() < 0.08,
        weight=rng.choice((1, 1, 2, 3, 400)),
        narrows=rng.random() < 0.05,
    )
    if filters and rng.random() < 0.45:
        made = _filters_otherwise(rng, made)
    if scores and rng.random() < 0.3:
        made = _scores_otherwise(rng, made)
    if made.filter_by != "followed" and rng.random() < 0.4:
        before = rng.choice(("skips", "skips while", "rejects", "narrows"))
        made = made._replace(before=before, ignores=_ignored(rng))
    if scores and made.score_by != "left" and rng.random() < 0.4:
        when_skipped = rng.choice((None, 0, 40))
        before = rng.choice(("skips", "skips while"))
        made = made._replace(before_score=before, when_skipped=when_skipped, ignores=_ignored(rng))
    if Dependency.OWN_RESERVATIONS in (made.filter_on or ()) or Dependency.OWN_RESERVATIONS in (made.score_on or ()):
        return made._replace(reserves=True)
    return made._replace(sees_kinds=rng.random() < 0.5)


def _tame_habits(rng: Random, name: str) -> Habits:
    node, here, objects = Dependency.NODE, Dependency.PODS_ON_NODE, Objects(KINDS[:1])
    depends = lambda: frozenset(  # noqa: E731
        rng.choice(((node,), (node, here), (node, here), (node, objects), (objects,), (node, here, objects)))
    )
    filters = rng.random() < 0.5
    forms = frozenset(rng.choice((*[("columns", "row")] * 5, ("columns",), ())))
    made = Habits(name, reads=rng.choice((("app",), ("app",), ("index",), ())), levels=rng.choice((2, 2, 5, 101)))
    if filters:
        made = made._replace(filter_on=depends(), filter_forms=forms, sees_kinds=rng.random() < 0.3)
        return made._replace(filter_by="zone", filter_on=ON_ZONES, filter_forms=ZONES) if rng.random() < 0.15 else made
    made = made._replace(score_on=depends(), score_forms=forms, weight=rng.choice((1, 2)))
    if rng.random() < 0.15:
        made = made._replace(normalizes=rng.choice(("up", "down")), levels=rng.choice((1, 5)))
    return made


def _zone_scorer(rng: Random, name: str) -> Habits:
    normalizes = rng.choice(("", "", "up", "down"))
    return Habits(
        name, score_by="zone", score_on=ON_ZONES, score_forms=ZONES, normalizes=normalizes, levels=rng.choice((2, 5))
    )


def _ignored(rng: Random) -> frozenset[str]:
    return frozenset(rng.choice(((), (), (REQUESTS,), (REQUESTS, LABELS))))


def _dependencies(rng: Random) -> Dependencies:
    found: set[Dependency | Objects] = set()
    for dependency, chance in (
        (Dependency.NODE, 0.8),
        (Dependency.PODS_ON_NODE, 0.5),
        (Objects(KINDS[:1]), 0.25),
        (Objects(KINDS), 0.1),
        (Dependency.ALL_NODES, 0.1),
        (Dependency.OWN_RESERVATIONS, 0.06),
        (Dependency.PODS_ANYWHERE, 0.1),
        (Dependency.UNKNOWN, 0.06),
    ):
        if rng.random() < chance:
            found.add(dependency)
    return frozenset(found)


def _filters_otherwise(rng: Random, made: Habits) -> Habits:
    how = rng.choice(("load", "load", "mates", "both", "followed", "zone", "zone"))
    on_node = frozenset({Dependency.NODE, Dependency.PODS_ON_NODE})
    forms = made.filter_forms
    if how == "zone":
        return made._replace(filter_by=how, filter_on=ON_ZONES, filter_forms=ZONES)
    if how in ("load", "both"):
        forms = forms | {"columns"}
    return made._replace(filter_by=how, filter_on=on_node, filter_forms=forms)


def _scores_otherwise(rng: Random, made: Habits) -> Habits:
    if rng.random() < 0.7:
        return made._replace(score_by="zone", score_on=ON_ZONES, score_forms=ZONES)
    return made._replace(score_by="left", score_on=frozenset({Dependency.FEASIBLE_SET}), before_score="looks")


ZONES = frozenset({"columns", "domains"})
ON_ZONES = frozenset({Dependency.NODE, Dependency.PODS_ANYWHERE, Dependency.ALL_NODES})


def plugin_of(habits: Habits) -> type:
    """Return the class of a plugin with these habits."""
    members: dict[str, Any] = {"name": habits.name, "habits": habits, "promises": _promises_of(habits)}
    for method in _methods_of(habits):
        members[method] = getattr(MadeUp, f"_{method}")
    return type(habits.name, (MadeUp,), members)


def _promises_of(habits: Habits) -> Promises:
    found: dict[str, Any] = {"ignores": habits.ignores, "score_when_skipped": habits.when_skipped}
    if habits.filter_on is not None:
        found["filter_depends_on"] = habits.filter_on
        found["filters_by_row"] = "row" in habits.filter_forms
        found["filters_by_domain"] = "domains" in habits.filter_forms
        found["filters_under_load"] = habits.filter_by in ("load", "both")
        found["filters_by_affecting_pods"] = habits.filter_by in ("mates", "both")
    if habits.score_on is not None:
        found["score_depends_on"] = habits.score_on
        found["scores_by_row"] = "row" in habits.score_forms
        found["scores_by_domain"] = "domains" in habits.score_forms
    found["pre_filter_is_pure"] = habits.before in ("skips", "rejects")
    found["pre_filter_has_version"] = habits.before == "skips while"
    found["pre_score_is_pure"] = habits.before_score == "skips"
    found["pre_score_has_version"] = habits.before_score == "skips while"
    found["idle_after_skip"] = not habits.reserves
    return Promises(**found)


def _methods_of(habits: Habits) -> list[str]:
    found = ["signature"] if habits.is_signed else []
    if habits.filter_on is not None:
        found.append("filter")
        if "columns" in habits.filter_forms:
            found.append("filter_columns")
        found += [f"filter_{form}" for form in ("row", "domains") if form in habits.filter_forms]
        if habits.filter_by in ("load", "both"):
            found += ["resources_read", "load_limits", "filter_loaded_columns"]
        if habits.filter_by in ("mates", "both"):
            found.append("is_affected_by")
    if habits.score_on is not None:
        found.append("score")
        if "columns" in habits.score_forms:
            found.append("score_columns")
        found += [f"score_{form}" for form in ("row", "domains") if form in habits.score_forms]
        if habits.normalizes:
            found.append("normalize_score")
    if habits.before or habits.filter_by == "followed":
        found.append("pre_filter")
    if habits.before == "skips while":
        found.append("pre_filter_version")
    if habits.filter_by == "followed":
        found += ["add_pod", "remove_pod"]
    if habits.before_score:
        found.append("pre_score")
    if habits.before_score == "skips while":
        found.append("pre_score_version")
    if habits.sees_kinds:
        found.append("node_signature")
    if habits.reserves:
        found += ["reserve", "unreserve"]
    if habits.narrows:
        found.append("narrow")
    return found


class Mates(NamedTuple):
    """What a PreFilter has prepared: how many pods of the same app run on each node."""

    by_node: dict[str, int]

    def clone(self) -> "Mates":
        return Mates(dict(self.by_node))


class MadeUp:
    """The methods of all of them, by their names with an underscore before."""

    habits: Habits
    name: str

    def __init__(self, args: Any, handle: Any) -> None:
        self.handle = handle
        self.mood = 0
        """What nobody can know of (`Dependency.UNKNOWN`)."""
        self.secrets: dict[str, int] = {}
        """What goes with a node, as its pods do: the handle is told of each change."""
        self.reserved: dict[str, int] = {}
        self.breaks = False
        """Whether it raises whatever it is asked."""
        self.calls: dict[str, int] = {}
        """How many rows, or times, each form was asked about."""

    # -- what the answers are made from --

    def _count(self, form: str, rows: int = 1) -> None:
        self.calls[form] = self.calls.get(form, 0) + rows
        if self.breaks:
            raise RuntimeError("it is broken")

    def _sum(self, *parts: Any) -> int:
        return crc32(repr((self.name, parts)).encode())

    def _fragment(self, pod: Any) -> tuple[Any, ...]:
        return tuple(
            pod.requests.get("cpu", 0) if part == "cpu" else pod.labels.get(part) for part in self.habits.reads
        )

    def _everywhere(self, needs: Dependencies, pod: Any) -> tuple[Any, ...]:
        """What is the same for all nodes."""
        found: list[Any] = []
        for dependency in sorted(needs, key=repr):
            if isinstance(dependency, Objects):
                found += [sorted(map(repr, self.handle.objects.list(kind))) for kind in dependency.kinds]
        if Dependency.PODS_ANYWHERE in needs:
            mates = self._mates("x")
            found.append((int(mates.counts.sum()), self.handle.cache.index.namespace_labels("default").get("env")))
        if Dependency.ALL_NODES in needs:
            table = self.handle.cache.table
            found.append(sorted(_node_part(table.nodes[row]) for row in np.flatnonzero(table.valid).tolist()))
        if Dependency.UNKNOWN in needs:
            found.append(self.mood)
        return tuple(found)

    def _mates(self, app: str | None) -> Any:
        selector = compile_selector(LabelSelector(match_labels={"app": app or ""}))
        return self.handle.cache.index.group(SelectorGroup(frozenset({"default"}), (selector,)))

    def _there(self, needs: Dependencies, node: Any, pods: Any) -> tuple[Any, ...]:
        """What goes with one node."""
        found: list[Any] = [_node_part(node)]
        name = node.metadata.name
        if Dependency.PODS_ON_NODE in needs:
            found.append((_pods_part(pods), 0 if self.habits.sees_kinds else self.secrets.get(name, 0)))
        if Dependency.OWN_RESERVATIONS in needs:
            found.append(self.reserved.get(name, 0))
        return tuple(found)

    def _code(self, pod: Any, node: Any, pods: Any, everywhere: tuple[Any, ...], zone: int | None = None) -> int:
        how = self.habits.filter_by
        if how == "zone":
            return 0 if zone is None else _unless(self._sum(self._fragment(pod), zone) % ALWAYS < OFTEN)
        if how == "mates":
            return _unless(self._mates_on(pod, pods) <= self._most(pod, node) % 3)
        if how in ("load", "both"):
            cpu_most, pods_most = self._limits(pod, node)
            cpu = sum(each.requests.get("cpu", 0) for each in pods.values())
            return self._loaded_code(cpu, len(pods), cpu_most, pods_most) or (
                3 if how == "both" and self._mates_on(pod, pods) > self._most(pod, node) % 3 else 0
            )
        drawn = self._sum(self._fragment(pod), self._there(self.habits.filter_on, node, pods), everywhere)
        if self.habits.errs and drawn % 31 == 0:
            return 3
        return 0 if drawn % ALWAYS < OFTEN else 1 + drawn % 2

    def _mates_on(self, pod: Any, pods: Any) -> int:
        return sum(each.labels.get("app") == pod.labels.get("app") for each in pods.values())

    def _followed(self, state: Any, pod: Any, node: Any) -> int:
        mates = state.read(self.name).by_node.get(node.metadata.name, 0)
        return _unless(mates <= self._most(pod, node) % 3)

    def _most(self, pod: Any, node: Any) -> int:
        return self._sum(self._fragment(pod), pod.labels.get("app"), _node_part(node))

    def _limits(self, pod: Any, node: Any) -> tuple[int, int]:
        drawn = self._most(pod, node)
        return 500 + drawn % 5 * 500, 1 + drawn % 7

    @staticmethod
    def _loaded_code(cpu: int, pods: int, cpu_most: int, pods_most: int) -> int:
        return 1 if cpu > cpu_most else 2 if pods > pods_most else 0

    def _words(self, code: int, everywhere: tuple[Any, ...]) -> Status:
        words = f"{self.name} said {code} of {crc32(repr(everywhere).encode()) % 3}"
        if code == 3 and self.habits.filter_by == "checksum":
            return error(words)
        return unschedulable(words) if code != 2 else unresolvable(words)

    def _value(self, pod: Any, node: Any, pods: Any, everywhere: tuple[Any, ...], zone: int | None = None) -> int:
        if self.habits.score_by == "zone":
            drawn = self._sum(self._fragment(pod), zone)
        else:
            drawn = self._sum(self._fragment(pod), self._there(self.habits.score_on, node, pods), everywhere)
        most = 300 if self.habits.normalizes else 100
        if self.habits.errs and not self.habits.normalizes and drawn % 37 == 0:
            return 101 + drawn % 2 * -202
        return 0 if self.habits.levels == 1 else drawn % self.habits.levels * (most // (self.habits.levels - 1))

    def _zone_facts(self, pod: Any) -> Any:
        """By domain, the number that the plugin goes by, or None where not every node has a zone."""
        topology = Topologies.shared(self.handle.cache.table).get(ZONE)
        if not topology.complete:
            return None
        sums = self._mates(pod.labels.get("app")).by_domain(topology)
        return topology, sums.values

    def _zone_of(self, pod: Any, node: Any) -> int | None:
        """How many mates are in the node's zone; None where it has none."""
        zone = node.metadata.labels.get(ZONE)
        if zone is None:
            return None
        table = self.handle.cache.table
        counts, found = self._mates(pod.labels.get("app")).counts, 0
        for row in np.flatnonzero(table.valid).tolist():
            if table.nodes[row].metadata.labels.get(ZONE) == zone:
                found += int(counts[row])
        return found

    # -- the forms --

    def _signature(self, pod: Any) -> Any:
        if "private" in pod.labels:
            return None
        app = pod.labels.get("app") if self.habits.filter_by in ("mates", "both", "followed", "load") else ""
        return self._fragment(pod), app

    def _node_signature(self, node: Any) -> Any:
        return _node_part(node.node), _pods_part(node.pods), node.labels.get(ZONE)

    def _filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        self._count("filter")
        everywhere = self._everywhere(self.habits.filter_on, pod) if self.habits.filter_by == "checksum" else ()
        if self.habits.filter_by == "followed":
            code = self._followed(state, pod, node.node)
        else:
            zone = self._zone_of(pod, node.node) if self.habits.filter_by == "zone" else None
            pods = node.pods if Dependency.PODS_ON_NODE in self.habits.filter_on else {}
            code = self._code(pod, node.node, pods, everywhere, zone)
        return self._words(code, everywhere) if code else None

    def _filter_columns(self, state: Any, pod: Any, table: Any, rows: Any) -> FilterColumn:
        positions = np.arange(table.capacity)[rows].tolist()
        self._count("filter_columns", len(positions))
        everywhere = self._everywhere(self.habits.filter_on, pod) if self.habits.filter_by == "checksum" else ()
        codes = [self._code_of_row(state, pod, table, row, everywhere) for row in positions]
        return FilterColumn(np.array(codes, dtype=np.int32), lambda code: self._words(code, everywhere))

    def _code_of_row(self, state: Any, pod: Any, table: Any, row: int, everywhere: tuple[Any, ...]) -> int:
        node = table.nodes[row]
        if node is None:
            return 1
        if self.habits.filter_by == "followed":
            return self._followed(state, pod, node)
        zone = self._zone_of(pod, node) if self.habits.filter_by == "zone" else None
        return self._code(pod, node, table.pods[row], everywhere, zone)

    def _filter_row(self, state: Any, pod: Any, table: Any, row: int) -> int:
        self._count("filter_row")
        everywhere = self._everywhere(self.habits.filter_on, pod) if self.habits.filter_by == "checksum" else ()
        return self._code_of_row(state, pod, table, row, everywhere)

    def _filter_domains(self, state: Any, pod: Any) -> DomainCodes | None:
        self._count("filter_domains")
        found = self._zone_facts(pod)
        if found is None:
            return None
        topology, counts = found
        codes = np.array([self._code(pod, None, None, (), int(count)) for count in counts], dtype=np.int32)
        codes[ABSENT] = 1
        return DomainCodes(OverDomains.of(topology, codes), lambda code: self._words(code, ()))

    def _resources_read(self, pod: Any) -> tuple[str, ...]:
        return ("cpu",)

    def _load_limits(self, state: Any, pod: Any, table: Any, rows: Any) -> RowLoad:
        nowhere = (-1, -1)
        limits = [
            nowhere if self._has_many_mates(pod, table, row) else self._limits(pod, table.nodes[row])
            for row in rows.tolist()
        ]
        cpu, pods = (np.array([each[at] for each in limits], dtype=np.int64) for at in (0, 1))
        return RowLoad(pods, {"cpu": cpu})

    def _filter_loaded_columns(self, state: Any, pod: Any, table: Any, rows: Any, load: Any) -> FilterColumn:
        self._count("filter_loaded_columns", len(rows))
        codes = []
        for at, row in enumerate(rows.tolist()):
            cpu_most, pods_most = self._limits(pod, table.nodes[row])
            code = self._loaded_code(int(load.requested["cpu"][at]), int(load.pods[at]), cpu_most, pods_most)
            codes.append(code or (3 if self._has_many_mates(pod, table, row) else 0))
        return FilterColumn(np.array(codes, dtype=np.int32), lambda code: self._words(code, ()))

    def _has_many_mates(self, pod: Any, table: Any, row: int) -> bool:
        mates = self._mates_on(pod, table.pods[row])
        return self.habits.filter_by == "both" and mates > self._most(pod, table.nodes[row]) % 3

    def _is_affected_by(self, state: Any, pod: Any, other: Any) -> bool:
        return other.labels.get("app") == pod.labels.get("app")

    def _score(self, state: Any, pod: Any, node: Any) -> int:
        self._count("score")
        if self.habits.score_by == "left":
            return self._sum(self._fragment(pod), _node_part(node.node), state.read(f"{self.name}/left")) % 101
        everywhere = self._everywhere(self.habits.score_on, pod) if self.habits.score_by == "checksum" else ()
        zone = self._zone_of(pod, node.node) if self.habits.score_by == "zone" else None
        pods = node.pods if Dependency.PODS_ON_NODE in self.habits.score_on else {}
        return self._value(pod, node.node, pods, everywhere, zone)

    def _score_columns(self, state: Any, pod: Any, table: Any, rows: Any) -> Any:
        positions = np.arange(table.capacity)[rows].tolist()
        self._count("score_columns", len(positions))
        return np.array([self._score_of_row(state, pod, table, row) for row in positions], dtype=np.int64)

    def _score_of_row(self, state: Any, pod: Any, table: Any, row: int) -> int:
        node = table.nodes[row]
        if node is None:
            return 77 if self.habits.levels > 1 else 0
        if self.habits.score_by == "left":
            return self._sum(self._fragment(pod), _node_part(node), state.read(f"{self.name}/left")) % 101
        everywhere = self._everywhere(self.habits.score_on, pod) if self.habits.score_by == "checksum" else ()
        zone = self._zone_of(pod, node) if self.habits.score_by == "zone" else None
        return self._value(pod, node, table.pods[row], everywhere, zone)

    def _score_row(self, state: Any, pod: Any, table: Any, row: int) -> int:
        self._count("score_row")
        return self._score_of_row(state, pod, table, row)

    def _score_domains(self, state: Any, pod: Any) -> OverDomains | None:
        self._count("score_domains")
        found = self._zone_facts(pod)
        if found is None:
            return None
        topology, counts = found
        return OverDomains.of(topology, np.array([self._value(pod, None, None, (), int(c)) for c in counts]))

    def _normalize_score(self, state: Any, pod: Any, scores: Any) -> Any:
        self._count("normalize_score")
        most = max(int(scores.max()), 1)
        found = scores * 100 // most
        return 100 - found if self.habits.normalizes == "down" else found

    def _pre_filter(self, state: Any, pod: Any) -> Any:
        self._count("pre_filter")
        if self.habits.filter_by == "followed":
            views = self.handle.nodes()
            state.write(self.name, Mates({view.name: self._mates_on(pod, view.pods) for view in views}))
            return None
        drawn = self._sum("before", self._of_shape(pod), self._while() if self.habits.before == "skips while" else 0)
        if self.habits.before.startswith("skips"):
            return SKIP if drawn % 2 else None
        if self.habits.before == "rejects":
            return (None, None, None, unschedulable("not now"), unresolvable("never"))[drawn % 5]
        if drawn % 2:
            return None
        table = self.handle.cache.table
        return PreFilterResult(frozenset(name for name in table.names if self._sum(name, drawn) % 3))

    def _pre_filter_version(self, pod: Any) -> Any:
        return None if "private" in pod.labels else self.handle.objects.version(KINDS[1])

    def _pre_score_version(self, pod: Any) -> Any:
        return self.handle.objects.version(KINDS[1])

    def _of_shape(self, pod: Any) -> tuple[Any, ...]:
        found: list[Any] = [pod.namespace, pod.priority]
        if REQUESTS not in self.habits.ignores:
            found.append(pod.requests.get("cpu", 0))
        if LABELS not in self.habits.ignores:
            found.append(sorted(pod.labels.items()))
        return tuple(found)

    def _while(self) -> int:
        return len(list(self.handle.objects.list(KINDS[1])))

    def _add_pod(self, state: Any, pod: Any, added: Any, node: Any) -> None:
        if added.labels.get("app") == pod.labels.get("app"):
            mates = state.read(self.name).by_node
            mates[node.name] = mates.get(node.name, 0) + 1

    def _remove_pod(self, state: Any, pod: Any, removed: Any, node: Any) -> None:
        if removed.labels.get("app") == pod.labels.get("app"):
            mates = state.read(self.name).by_node
            mates[node.name] = mates.get(node.name, 0) - 1

    def _pre_score(self, state: Any, pod: Any, nodes: Any) -> Status | None:
        self._count("pre_score")
        if self.habits.before_score == "looks":
            state.write(f"{self.name}/left", nodes.row_array().tolist())
            return None
        drawn = self._sum("score", self._of_shape(pod), self._while() if self.habits.before_score != "skips" else 0)
        return SKIP if drawn % 2 else None

    def _narrow(self, state: Any, pod: Any, nodes: Any) -> Narrowed | None:
        mask = np.array([self._sum("narrow", name) % 2 == 0 for name in nodes.table.names])
        return Narrowed(mask, unschedulable("another would be nicer")) if self._sum(self._fragment(pod)) % 2 else None

    def _reserve(self, state: Any, pod: Any, node_name: str) -> None:
        self.reserved[node_name] = self.reserved.get(node_name, 0) + 1

    def _unreserve(self, state: Any, pod: Any, node_name: str) -> None:
        if node_name in self.reserved:
            self.reserved[node_name] -= 1


def _unless(fits: bool) -> int:
    return 0 if fits else 1


def _node_part(node: Any) -> tuple[Any, ...]:
    """What plugins read of a node object: nodes of one mode and size are of one kind."""
    return node.metadata.labels.get("mode"), node.status.allocatable.get("cpu")


def _pods_part(pods: Any) -> tuple[Any, ...]:
    return tuple(sorted((pod.requests.get("cpu", 0), str(pod.labels.get("app"))) for pod in pods.values()))
