"""`check_plugin`: holds a plugin to its contract on clusters that live through a random history.

A history is a few dozen changes: nodes, pods and objects that come, change and go, bindings that fail, time that
passes. It is lived twice, with answers kept and with nothing kept, and both must decide the same. Every fourth is lived
on so many nodes that nodes which are alike are asked about together. Meanwhile the plugin is asked in all its forms
(`berth.engine.promise_check`), what it looks at is held against what it promises, and each of its calls is timed. After
every other change no pod may be left waiting that finds a node when it is tried. In the end the scheduler is started
anew: what the plugin says then must be what it said before, and no pod may find a node then that found none.
"""

import operator
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from berth.config.load import document_enabling
from berth.core.builders import NodeBuilder, PodBuilder, make_node, make_pod
from berth.core.virtual_cluster import BrokenPromiseError, VirtualCluster
from berth.cycle.instrument import Instrument
from berth.framework.blame import contained, described
from berth.framework.cycle_state import CycleState
from berth.framework.effects import EvictPod, Request
from berth.framework.interface import MAX_NODE_SCORE, MIN_NODE_SCORE, FeasibleNodes, PreFilterResult
from berth.framework.loaded import LoadedPlugin
from berth.framework.loader import plugins_given
from berth.framework.promises import NEVER_KEPT
from berth.framework.registry import points_of
from berth.framework.status import Code, Status, is_success
from berth.state.pod_info import PodInfo
from berth.state.queued_pod import QueuedPod
from berth.testing.clocks import CallTimes, clocks_set
from berth.testing.invariants import check

ANSWERS = "its promises, signature or node_signature leave out something that the answers depend on"
WAKES = "register the event that has helped it (events_to_register), and let its hint return QUEUE"
ORDERS = "let it compare one key of each pod, which does not change, such as a tuple"
CLOCKS = "leave the promise out, or note the time when an event comes"
LATER_S = (1, 3_607, 90 * 86_400 + 2)
"""So much later the plugin is asked again."""

MakesNode = Callable[[random.Random, str], NodeBuilder]
MakesPod = Callable[[random.Random, str], PodBuilder]
MakesObjects = Callable[[random.Random], Iterable[Any]]

NODES, MANY_NODES = 4, 24
"""How many nodes there are, and in every fourth history: more than `berth.engine.node_kinds` asks about one by one."""
FAREWELLS = 3
"""So many pods leave in the end, while nothing else happens that might wake others."""
PROBES = 3
"""With so many pods, which never come, it is found out what a plugin says."""
SETTLING_S = 30.0
"""So long no pod that could run may wait: it is longer than the longest backoff."""
ROUNDS, MORE_PODS = 3, 2
"""So often each kind of change is tried by itself, after so many more pods have come."""
COMPARED = 6
"""So many pods are compared with each other by a plugin that orders the queue."""


class PluginFault(NamedTuple):
    """Something that is wrong with a plugin."""

    kind: str
    """What was found: contract, raises, time, order, promise, memos, inputs, state, scores, explanations, waking or
    what-ifs."""
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


class PluginFaultError(AssertionError):
    """A plugin does not keep its contract; `faults` are the first of each kind."""

    def __init__(self, plugin: str, faults: Iterable[PluginFault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(f"{plugin}: {fault}" for fault in self.faults))


def check_plugin(
    plugin: type,
    *,
    args: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    nodes: MakesNode | None = None,
    pods: MakesPod | None = None,
    objects: MakesObjects = lambda _rng: (),
    remembers: bool = False,
    histories: int = 4,
    steps: int = 30,
    seed: int = 0,
) -> None:
    """Check everything that a plugin's contract asks of it. Raises `PluginFaultError`.

    `args` are those of its `pluginConfig`. It is enabled beside the default plugins unless there is a `config`. `nodes`
    and `pods` make what the plugin looks at, under the name given; `objects` returns some to be put into the cluster,
    anew or in a newer state. A plugin that `remembers` may know more than objects say, such as what it has reserved
    on a node, and need not say the same when the scheduler is started anew. The same `seed` gives the same histories.
    """
    try:
        plugins_given([plugin])
    except ValueError as wrong:
        raise PluginFaultError(plugin.__name__, [PluginFault("contract", str(wrong))]) from None
    if config is None:
        config = document_enabling({plugin.name: points_of(plugin)})  # type: ignore[attr-defined]
        if args is not None:
            config["profiles"][0]["pluginConfig"] = [{"name": plugin.name, "args": args}]  # type: ignore[attr-defined]
    found: dict[str, PluginFault] = {}
    for number in range(histories):
        rng = random.Random(f"{seed} {number}")
        size = MANY_NODES if number % 4 == 1 else NODES
        history = _History(
            plugin, config, rng, nodes or _some_node, pods or _some_pod, objects, remembers, size, number % 4 == 2
        )
        for fault in history.lived(steps):
            found.setdefault(fault.kind, fault._replace(what=f"{fault.what} (history {number} of seed {seed})"))
        if found.keys() & {"raises", "scores", "time"}:  # each attempt fails or is slow, and would in each history
            break
    if found:
        raise PluginFaultError(plugin.__name__, found.values())


def _some_node(rng: random.Random, name: str) -> NodeBuilder:
    node = make_node(name).capacity(cpu=rng.choice(("2", "8")), memory="8Gi", pods=rng.choice((4, 20)))
    node.label("zone", rng.choice("ab")).label("disk", rng.choice(("ssd", "hdd")))
    return node.taint("busy", "", "NoSchedule") if rng.random() < 0.1 else node


def _some_pod(rng: random.Random, name: str) -> PodBuilder:
    pod = make_pod(name).request(cpu=rng.choice(("100m", "500m", "1"))).label("app", rng.choice("abc"))
    return pod.priority(10) if rng.random() < 0.2 else pod


class _Faults(Instrument):
    """Hears of what a plugin raises, and of answers that the contract does not allow."""

    def __init__(self) -> None:
        self.found: list[PluginFault] = []

    def plugin_broke(self, plugin: str, method: str, bug: Exception) -> None:
        """Note a bug."""
        self.found.append(PluginFault("raises", f"{method}: {described(bug)}"))

    def hint_broke(self, pod: PodInfo, plugin: str, event: str, error: Exception) -> None:
        """Note a bug of a hint, which costs no more than an attempt in vain, and is easily overlooked."""
        self.found.append(PluginFault("raises", f"the hint for {event}: {described(error)}"))


class _History:
    """One history, lived with kept answers and without."""

    def __init__(
        self,
        plugin: type,
        config: Mapping[str, Any],
        rng: random.Random,
        make_node: MakesNode,
        make_pod: MakesPod,
        make_objects: MakesObjects,
        remembers: bool,
        size: int,
        tries_changes: bool,
    ) -> None:
        self._name: str = plugin.name  # type: ignore[attr-defined]
        self._rng = rng
        self._remembers = remembers
        self._make_node, self._make_pod, self._make_objects = make_node, make_pod, make_objects
        self._size, self._tries_changes = size, tries_changes
        self._since: list[str] = []
        """What has changed since it was last looked for pods that were left waiting."""
        self._plugin = plugin
        self._raised = _Faults()
        self._calls = CallTimes(plugin)
        plugins = {self._name: self._calls.timed}
        self._kept = VirtualCluster(plugins=plugins, config=config, instrument=self._raised, stopwatch=lambda: 0.0)
        self._fresh = VirtualCluster(plugins=plugins, config=config, memos=False, check_promises=0)
        self._handed_out: dict[tuple[str, str], tuple[Any, str]] = {}

    def lived(self, steps: int) -> Iterator[PluginFault]:
        """Live it, and yield what is wrong."""
        for number in range(self._size):
            self._put(self._make_node(self._rng, f"n{number}"))
        self._put_objects()
        for step in range(steps):
            self._change(step)
            yield from self._told()
            if slow := self._calls.fault():
                yield PluginFault("time", slow)
                return
            if self._kept.nodes_of() != self._fresh.nodes_of():
                yield PluginFault("memos", f"with nothing kept it decides otherwise: {self._difference()}; {ANSWERS}")
                return
            if self._rng.random() < 0.5:
                yield from self._left_waiting()
        yield from self._order()
        if self._tries_changes:
            yield from self._after_each_kind_of_change()
        else:
            yield from self._in_the_end()

    # -- what happens --

    def _both(self, act: Callable[[VirtualCluster], Any]) -> None:
        for cluster in (self._kept, self._fresh):
            _through(lambda cluster=cluster: act(cluster), self._raised.found)  # type: ignore[misc]
        for key, obj in self._kept.objects.items():
            known = self._handed_out.get(key)
            if known is None or known[0] is not obj:
                if known is not None:
                    self._hold_unchanged(key)
                self._handed_out[key] = obj, repr(obj)

    def _put(self, obj: Any) -> None:
        self._both(lambda cluster: cluster.put(obj))

    def _put_objects(self) -> None:
        for obj in self._make_objects(self._rng):
            self._put(obj)

    def _hold_unchanged(self, key: tuple[str, str]) -> None:
        obj, before = self._handed_out[key]
        if repr(obj) != before:
            told = f"{' '.join(key)} was changed, which others read as well"
            self._raised.found.append(PluginFault("inputs", told))

    def _change(self, step: int) -> None:
        rng, act = self._rng, self._rng.random()
        names = sorted(name for kind, name in self._kept.objects if kind == "Node")
        if act < 0.12:
            self._put(self._make_node(rng, f"n{rng.randrange(self._size)}"))
            self._since.append("a node came or changed")
        elif act < 0.15 and len(names) > self._size // 2:
            name = rng.choice(names)
            self._both(lambda cluster: cluster.delete("Node", name))
            self._since.append("a node was deleted")
        elif act < 0.28:
            self._pod_leaves()
            self._since.append("a pod was deleted")
        elif act < 0.36:
            self._pod_changes()
            self._since.append("the labels of a pod changed")
        elif act < 0.46:
            self._put_objects()
            self._since.append("objects changed")
        elif act < 0.5:
            self._both(lambda cluster: cluster.refuse("the API server is busy"))
        else:
            # On many nodes so many that they do not all find an empty one.
            for number in range(max(1, self._size // 8)):
                self._put(self._make_pod(rng, f"p{step}-{number}"))
            self._since.append("a pod came")
        seconds = rng.choice((0.0, 0.0, 2.0, 15.0))
        self._both(lambda cluster: cluster.advance(seconds))

    def _pod_leaves(self) -> None:
        pods = sorted(key for kind, key in self._kept.objects if kind == "Pod")
        if pods:
            key = self._rng.choice(pods)
            self._both(lambda cluster: cluster.delete("Pod", key) if ("Pod", key) in cluster.objects else None)

    def _pod_changes(self) -> None:
        """Give a pod, wherever it is, the labels and annotations of another."""
        pods = sorted(key for kind, key in self._kept.objects if kind == "Pod")
        if not pods:
            return
        key = self._rng.choice(pods)
        other = self._make_pod(self._rng, "other").build().metadata

        def relabel(cluster: VirtualCluster) -> None:
            pod = cluster.objects.get(("Pod", key))
            if pod is not None:
                metadata = replace(pod.metadata, labels=other.labels, annotations=other.annotations)
                cluster.put(replace(pod, metadata=metadata))

        self._both(relabel)

    def _difference(self) -> str:
        kept, fresh = self._kept.nodes_of(), self._fresh.nodes_of()
        pod = next(name for name in kept if kept[name] != fresh.get(name))
        return f"pod {pod} goes to {fresh.get(pod) or 'no node'}, and not to {kept[pod] or 'no node'}"

    # -- what is wrong --

    def _told(self) -> Iterator[PluginFault]:
        for key in self._handed_out:
            self._hold_unchanged(key)
        yield from self._raised.found
        self._raised.found.clear()
        plugin = _record(self._kept, self._name)
        if plugin.explain_rejection is not None:
            for queued in self._kept.core.queue.unschedulable.values():
                if self._name in queued.unschedulable_plugins:
                    explained = _called(plugin.explain_rejection.explain_rejection, queued.pod)
                    if isinstance(explained, PluginFault):
                        yield explained
                    # What it was rejected for may be over, and what PreFilter says of a pod may say it all.
                    elif not explained and _Answers(self._kept, self._name, queued.pod).rejects:
                        yield PluginFault("explanations", f"nothing explains why pod {queued.pod.key} was rejected")

    def _after_each_kind_of_change(self) -> Iterator[PluginFault]:
        """See who is left waiting after one change at a time, with pods that wait for it."""
        changes: dict[str, Callable[[], None]] = {
            "a node came or changed": lambda: self._put(
                self._make_node(self._rng, f"n{self._rng.randrange(self._size)}")
            ),
            "the labels of a pod changed": self._pod_changes,
            "a pod was deleted": self._pod_leaves,
            "objects changed": self._put_objects,
        }
        for number in range(ROUNDS):
            for what, change in changes.items():
                for more in range(MORE_PODS):
                    self._put(self._make_pod(self._rng, f"w{number}-{len(what)}-{more}"))
                self._both(lambda cluster: cluster.advance(SETTLING_S))
                self._since = [what]
                change()
                found = list(self._left_waiting())
                yield from found
                if any(fault.kind == "waking" for fault in found):
                    return
                if self._kept.nodes_of() != self._fresh.nodes_of():
                    told = f"with nothing kept it decides otherwise: {self._difference()}; {ANSWERS}"
                    yield PluginFault("memos", told)
                    return

    def _left_waiting(self) -> Iterator[PluginFault]:
        """Try the pods that the plugin has rejected once all has settled: none may find a node just like that.

        Where one evicts others for it, or a pod waits for Permit, nothing can be said.
        """
        since, self._since = self._since, []
        self._both(lambda cluster: cluster.advance(SETTLING_S))
        yield from self._told()
        pending = self._kept.core.queue.unschedulable.values()
        rejected = [q.pod for q in pending if self._name in q.unschedulable_plugins and not q.is_gated]
        if not rejected or len(self._kept.core.waiting):
            return
        told = len(self._kept.effects)

        def activate(cluster: VirtualCluster) -> None:
            for pod in rejected:
                cluster.core.queue.activate(pod.uid, cluster.now)
            cluster.run()

        self._both(activate)
        yield from self._told()
        requests = [effect for effect in self._kept.effects[told:] if isinstance(effect, Request)]
        if any(isinstance(request.effect, EvictPod) for request in requests):
            return
        nodes = self._kept.nodes_of()
        late = next((pod for pod in rejected if nodes.get(pod.name)), None)
        if late is not None:
            what = " and ".join(dict.fromkeys(since)) or "time has passed"
            yield PluginFault("waking", f"pod {late.name} fits, and was left waiting although {what}: {WAKES}")

    def _order(self) -> Iterator[PluginFault]:
        """Hold an order of the queue against what a strict weak order is, and against the keys beside it."""
        plugin = _record(self._kept, self._name)
        if plugin.queue_sort is None:
            return
        made = [self._make_pod(self._rng, f"order-{number}").info() for number in range(COMPARED)]
        queued = [QueuedPod(pod, self._kept.now + self._rng.randrange(3)) for pod in made]
        less = {(a, b): _called(plugin.queue_sort.less, queued[a], queued[b]) for a, b in _pairs()}
        again = {(a, b): _called(plugin.queue_sort.less, queued[a], queued[b]) for a, b in _pairs()}
        broke = next((said for said in less.values() if isinstance(said, PluginFault)), None)
        if broke is not None:
            yield broke
            return
        if less != again:
            yield PluginFault("order", f"less says another thing when it is asked again: {ORDERS}")
            return
        yield from _disorder(less, lambda place: made[place].name)
        if plugin.sort_key is None:
            return
        keys = [_called(plugin.sort_key.sort_key, each) for each in queued]
        for a, b in _pairs():
            before = _called(operator.lt, keys[a], keys[b])
            if isinstance(before, PluginFault):
                told = f"what sort_key returns of two pods does not compare ({before.what}): return keys of one type"
                yield PluginFault("order", told)
                return
            if bool(before) != less[a, b]:
                told = f"of pods {made[a].name} and {made[b].name} less says {less[a, b]}, and sort_key the contrary"
                yield PluginFault("order", f"{told}: the queue goes by sort_key, so let less compare the keys")
                return

    def _in_the_end(self) -> Iterator[PluginFault]:
        self._both(lambda cluster: cluster.advance(SETTLING_S))
        yield from self._told()
        try:
            check(self._kept.core)
        except AssertionError as wrong:
            yield PluginFault("inputs", f"what the scheduler knows of the cluster was changed: {wrong}")
        probes = [self._make_pod(self._rng, f"probe-{number}").info() for number in range(PROBES)]
        for _ in range(FAREWELLS):
            self._pod_leaves()
            self._both(lambda cluster: cluster.advance(SETTLING_S))
        yield from self._told()
        said = [_Answers(self._kept, self._name, probe) for probe in probes]
        for each in said:
            yield from each.faults
        yield from self._by_the_clock(probes, said)
        yield from self._what_ifs(probes)
        is_settled = not len(self._kept.core.waiting)
        before = self._kept.nodes_of()
        self._kept.restart()
        for probe, old in zip(probes, said, strict=True):
            new = _Answers(self._kept, self._name, probe)
            if is_settled and not self._remembers and new.by_node != old.by_node:
                where = next(each for each in old.by_node if old.by_node[each] != new.by_node.get(each))
                change = f"of {where} it said {old.by_node[where]}, and says {new.by_node.get(where)} now"
                yield PluginFault("state", f"the scheduler was started anew, which changed its mind: {change}")
        _through(self._kept.run, [])
        late = [name for name, node in self._kept.nodes_of().items() if node and not before.get(name)]
        if late and is_settled:
            told = f"pod {late[0]} fits, and was left waiting until the scheduler was started anew"
            yield PluginFault("waking", f"{told}: {WAKES}")

    def _by_the_clock(self, probes: Iterable[PodInfo], said: "Iterable[_Answers]") -> Iterator[PluginFault]:
        """Ask once more as if it were later: answers that are kept must not go by a clock."""
        promises = _record(self._kept, self._name).promises
        if promises.filter_depends_on & NEVER_KEPT and promises.score_depends_on & NEVER_KEPT:
            return
        for later_s in LATER_S:
            with clocks_set(later_s, sys.modules.get(self._plugin.__module__)):
                now = [_Answers(self._kept, self._name, probe) for probe in probes]
            for old, new in zip(said, now, strict=True):
                if old.by_node != new.by_node:
                    where = next(each for each in old.by_node if old.by_node[each] != new.by_node.get(each))
                    told = f"of {where} it said {old.by_node[where]}, and {later_s} s later {new.by_node.get(where)}"
                    yield PluginFault("promise", f"it reads a clock: {told}, though nothing had changed; {CLOCKS}")
                    return

    def _what_ifs(self, probes: Iterable[PodInfo]) -> Iterator[PluginFault]:
        """Hold what it says as if a pod were gone against what it says once it is."""
        cluster, plugin = self._fresh, _record(self._fresh, self._name)
        running = sorted(key for (kind, key), pod in cluster.objects.items() if kind == "Pod" and pod.spec.node_name)
        gone = self._rng.choice(running) if running and plugin.filter is not None else None
        table, names = cluster.core.cache.table, {}
        if gone is None:
            return
        uid = cluster.objects["Pod", gone].metadata.uid
        row = table.row_of.get(cluster.objects["Pod", gone].spec.node_name)
        if row is None or not table.valid[row] or uid not in table.pods[row]:
            return
        for probe in probes:
            names[probe.key] = _without(plugin, probe, table.view(row), table.pods[row][uid])
        cluster.delete("Pod", gone)
        for probe in probes:
            now = _Answers(cluster, self._name, probe)
            found = now.by_node.get(table.names[row], ("",))[0] if now.is_searched else names[probe.key]
            # The verdict counts: in what-ifs nobody reads the words, in which upstream's plugins count pods, too.
            if names[probe.key] is not None and _verdict(found) != _verdict(names[probe.key]):
                told = f"without pod {gone} it would say {names[probe.key]} of its node, but once it was gone, {found}"
                yield PluginFault("what-ifs", told)


class _Answers:
    """What a plugin says of every node for a pod."""

    def __init__(self, cluster: VirtualCluster, name: str, pod: PodInfo) -> None:
        plugin, table = _record(cluster, name), cluster.core.cache.table
        self.faults: list[PluginFault] = []
        self.by_node: dict[str, Any] = {}
        state = CycleState()
        begun = None if plugin.pre_filter is None else _called(plugin.pre_filter.pre_filter, state, pod)
        self.is_searched = begun is None or (isinstance(begun, Status) and begun.code is Code.SUCCESS)
        if not self.is_searched:
            shown = sorted(begun.node_names or ()) if isinstance(begun, PreFilterResult) else _words(begun)
            self.by_node["PreFilter"] = shown
        rows, scores = table.rows().tolist(), {}
        if self.is_searched and plugin.filter is not None:
            said = {row: _words(_called(plugin.filter.filter, state, pod, table.view(row))) for row in rows}
            self.by_node = {table.names[row]: (words,) for row, words in said.items()}
            rows = [row for row in rows if said[row] == "Success"]
        if rows and self.is_searched:
            scores = self._scores(plugin, state, pod, table, rows)
        for row, score in scores.items():
            self.by_node[table.names[row]] = (*self.by_node.get(table.names[row], ("Success",)), score)

    @property
    def rejects(self) -> bool:
        """Whether it looks at nodes, and lets the pod pass on none."""
        said = self.by_node.values()
        return self.is_searched and bool(said) and not any(each[0] == "Success" for each in said)

    def _scores(
        self, plugin: LoadedPlugin, state: CycleState, pod: PodInfo, table: Any, rows: list[int]
    ) -> dict[int, int]:
        mask = np.zeros(table.capacity, dtype=np.bool_)
        mask[rows] = True
        nodes = FeasibleNodes(table, mask)
        begun = None if plugin.pre_score is None else _called(plugin.pre_score.pre_score, state, pod, nodes)
        if begun is not None and not is_success(begun):
            return {}
        if plugin.score is not None:
            raw = [_called(plugin.score.score, state, pod, table.view(row)) for row in rows]
            if not all(isinstance(each, int | np.integer) for each in raw):
                return {}
            found = np.array(raw, dtype=np.int64)
        elif plugin.score_columns is not None:
            found = _called(plugin.score_columns.score_columns, state, pod, table, nodes.row_array())
        else:
            return {}
        if plugin.normalize_score is not None and isinstance(found, np.ndarray):
            found = _called(plugin.normalize_score.normalize_score, state, pod, found)
        if not isinstance(found, np.ndarray):
            return {}
        scores = dict(zip(rows, found.tolist(), strict=True))
        for row, score in scores.items():
            if not MIN_NODE_SCORE <= score <= MAX_NODE_SCORE:
                self.faults.append(PluginFault("scores", f"node {table.names[row]} gets {score}, not 0 to 100"))
        if plugin.explain_score is not None:
            told = _called(plugin.explain_score.explain_score, pod, table.view(rows[0]))
            if isinstance(told, PluginFault):
                self.faults.append(told)
            elif not told:
                what = f"nothing explains the score of node {table.names[rows[0]]}"
                self.faults.append(PluginFault("explanations", what))
        return scores


def _pairs() -> list[tuple[int, int]]:
    return [(a, b) for a in range(COMPARED) for b in range(COMPARED)]


def _disorder(less: Mapping[tuple[int, int], bool], name: Callable[[int], str]) -> Iterator[PluginFault]:
    """Yield where an order is no strict weak one, which a queue needs to be sorted at all."""
    for a, b in _pairs():
        if less[a, b] and less[b, a]:
            told = f"less says that {name(a)} comes before {name(b)}, and {name(b)} before {name(a)}"
            yield PluginFault("order", f"{told}: {ORDERS}")
            return
        for c in range(COMPARED):
            is_between = not (less[a, c] or less[c, b])
            if less[a, b] and is_between:
                told = f"less says that {name(a)} comes before {name(b)}, but {name(c)} is neither after the one nor"
                yield PluginFault("order", f"{told} before the other: {ORDERS}")
                return


def _record(cluster: VirtualCluster, name: str) -> LoadedPlugin:
    profiles = cluster.core.profiles.values()
    return next(plugin for profile in profiles for plugin in profile.plugins if plugin.name == name)


def _called(method: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return method(*arguments)
    except BaseException as raised:
        return PluginFault("raises", f"{method.__name__}: {described(contained(raised))}")


def _words(said: Any) -> str:
    if isinstance(said, PluginFault):
        return str(said)
    return "Success" if said is None or is_success(said) else f"{said.code.label}: {said.message}"


def _verdict(words: Any) -> str:
    """Return how what `_words` returns begins: with a code, or with a kind of fault."""
    return str(words).partition(":")[0]


def _without(plugin: LoadedPlugin, pod: PodInfo, node: Any, other: PodInfo) -> str | None:
    """Return what the filter would say of a node were a pod not there; None where it is not asked."""
    state = CycleState()
    begun = None if plugin.pre_filter is None else _called(plugin.pre_filter.pre_filter, state, pod)
    if begun is not None or plugin.filter is None:
        return None
    node = node.without_pod(other)
    if plugin.pre_filter_extensions is not None:
        _called(plugin.pre_filter_extensions.remove_pod, state, pod, other, node)
    return _words(_called(plugin.filter.filter, state, pod, node))


def _through(act: Callable[[], Any], told: list[PluginFault]) -> None:
    """Do something again, as a step that ends with a broken promise has been taken, until nothing new is told."""
    while True:
        try:
            act()
        except BrokenPromiseError as broken:
            told.append(PluginFault("promise", str(broken)))
        else:
            return
