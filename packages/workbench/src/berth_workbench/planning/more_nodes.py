"""How many more nodes, and of which kinds, it takes to place the pods that have no place.

Nodes are added to a simulated cluster and the scheduler places what it can, until no pod is left or no node helps. Then
nodes are taken away again until one fewer is not enough. Called by `berth survive` for pods that lose their places, and
by `berth autoscale` for a backlog. Finding the fewest nodes is a packing problem that cannot be solved for a large
cluster: the answer is a number with which the scheduler has placed all pods, whether one fewer was tried in vain, and
the lower bound from the sums of the requests, beyond the existing room.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import cache
from itertools import count
from types import MappingProxyType
from typing import NamedTuple

import msgspec
import numpy as np

from berth.api.node import Node
from berth.api.pod import Pod
from berth.api.pod_resources import CPU, PODS
from berth.api.pools import HOSTNAME
from berth.api.quantity import milli_value, value
from berth.api.taints import Taint
from berth.core.core import Core
from berth.core.intake import ObjectEvent
from berth.core.questions import FilterOutcome, judge
from berth.engine.verdicts import Mask
from berth.framework.status import Code
from berth.state.node_tree import zone_of
from berth.state.pod_info import PodInfo
from berth.state.table import Int64, NodeTable
from berth_workbench.simulation.budgets import owner_of
from berth_workbench.simulation.gangs import COSCHEDULING_LABEL, declared_gang
from berth_workbench.simulation.measures import is_pending, used_rows
from berth_workbench.simulation.node_changes import add_nodes_like, node_like, remove_nodes
from berth_workbench.simulation.prices import Prices
from berth_workbench.simulation.processes import spread
from berth_workbench.simulation.rehearsal import Rehearsal
from berth_workbench.simulation.site import Site
from berth_workbench.simulation.watch import UNWATCHED, StoppedError, WorkWatch

ROUNDS = 64
"""So often nodes are added at most; after that, what is left is left."""
RUNS = 5
"""So often it is tried at most whether the nodes do that were counted."""
KINDS_AT_MOST = 64
"""So many kinds of nodes are looked at, those with the most nodes."""
SAMPLED = 25
"""So many pods of each shape at least are in the part of a backlog by which it is guessed how many nodes it takes."""
SAMPLED_NODES = 50
"""So many nodes at least it takes, by the sums: on fewer, the ends of nodes on which nothing fits would weigh more."""
PART_AT_LEAST = 10
"""The part is one pod of so many at most; else trying it costs more than it saves."""
GUESSES = 16
"""So often at most it is tried with other nodes."""
PODS_AT_MOST = 20_000
"""So many pods are placed anew at most to find out whether fewer nodes do."""
CLEARLY = 1.02
"""The nodes of one order are clearly more than those of another from here on, whichever are guessed."""


class NodeKind(NamedTuple):
    """Nodes that may be added."""

    name: str
    """What people know it by: a node that is there, or a node group."""
    model: Node
    price: float | None = None
    most: int | None = None
    """How many may be added; None for any number."""


class AddedNodes(msgspec.Struct, frozen=True, rename="camel"):
    """Nodes that were added."""

    like: str
    """A node that they are like, or the group they are of."""
    count: int
    price: float | None = None
    """Of all of them; null where it is not known."""


class MoreNodes(msgspec.Struct, frozen=True, rename="camel"):
    """What it takes."""

    nodes: tuple[AddedNodes, ...] = ()
    at_least: int = 0
    """Fewer nodes cannot do, however pods are placed: by the sums of what they request, and of the room there is.

    0 where the sums allow that no node is needed.
    """
    placed: int = 0
    """How many pods have a place with them."""
    left: int = 0
    """How many pods have none all the same: no node of these kinds takes them, or as many as may be added are added."""
    tried_with: int | None = None
    """By how many of the pods it is known, where that is not by all of them; 0 where it was stopped before."""
    one_fewer_fails: bool = False
    """Whether fewer pods have a place with one node fewer of any of these kinds: by the sums, or since it was tried."""

    @property
    def is_least(self) -> bool:
        """Whether it is certain that fewer nodes are not enough."""
        return not self.left and sum(each.count for each in self.nodes) == self.at_least


def kinds_of(nodes: Iterable[Node], prices: Prices | None = None) -> list[NodeKind]:
    """Return the kinds of nodes that there are, each with a node of its kind: nodes that differ only in name are
    alike.
    """
    found: dict[object, list[Node]] = defaultdict(list)
    for node in nodes:
        found[content_of(node_like(node, ""))].append(node)
    most = sorted(found.values(), key=len, reverse=True)[:KINDS_AT_MOST]
    return [NodeKind(each[0].metadata.name, each[0], None if prices is None else prices.of(each[0])) for each in most]


def content_of(node: Node) -> tuple[object, ...]:
    """Return what distinguishes nodes for Filter plugins, without their names."""
    taints: list[Taint] = sorted(node.spec.taints, key=lambda each: (each.key, each.effect))
    return (
        frozenset((key, value) for key, value in node.metadata.labels.items() if key != HOSTNAME),
        frozenset((name, str(amount)) for name, amount in node.status.allocatable.items()),
        tuple((each.key, each.value, each.effect) for each in taints),
        node.spec.unschedulable,
        zone_of(node.metadata.labels),
    )


class _Room(NamedTuple):
    """What is free on nodes to which pods may go, now or together with others."""

    amounts: Counter[str]
    """By resource, of the nodes that have room for a whole pod."""
    pods: Counter[object]
    """By shape, for how many pods there is room if no others take it."""


class _Wish(NamedTuple):
    """Pods that the same kinds of nodes would take."""

    kinds: tuple[int, ...]
    pods: list[PodInfo]
    room: _Room

    def nodes_like(self, model: Node) -> int:
        """Return how many nodes like this one the pods need besides the existing room; at least 1.

        That follows from the sums of their requests, together and shape by shape. It may be too few.
        """
        counts = Counter(pod.shape for pod in self.pods)
        examples = {pod.shape: pod for pod in self.pods}
        found = needed_of(model, self.pods, self.room.amounts)
        for shape, pods in counts.items():
            requests = {PODS: 1, **examples[shape].requests}
            on_one = min(_amount(model, name) // amount for name, amount in requests.items() if amount)
            if on_one > 0:
                found = max(found, math.ceil((pods - self.room.pods[shape]) / on_one))
        return found

    def of_gangs(self, site: Site, gangs: Set[object]) -> "_Wish":
        """Return those of its pods that are members of some gangs."""
        return self._replace(pods=[pod for pod in self.pods if _gang_of(site, pod) in gangs])


class Cheapest(NamedTuple):
    """What it takes, in the order that takes the least."""

    more: MoreNodes
    in_turn: MoreNodes | None
    """What it takes in the order in which the pods wait, where that is more."""
    order: Sequence[Pod]
    """The order of `more`; empty for the one in which the pods wait."""

    def carry_out(self, site: Site, kinds: Sequence[NodeKind]) -> bool:
        """Add the nodes of `more` to a cluster, and let the scheduler place what it can; say that it went well."""
        if self.order:
            _queue_anew(site, self.order)
        for kind in kinds:
            add_nodes_like(site, kind.model, sum(each.count for each in self.more.nodes if each.like == kind.name))
        site.settle()
        return True


def cheapest_until_placed(
    site: Site,
    kinds: Sequence[NodeKind],
    wanting: Callable[[], list[Pod]],
    *,
    by_price: bool = False,
    watch: WorkWatch = UNWATCHED,
) -> Cheapest:
    """Return what it takes until all pods of `wanting` have a place, trying them in two orders.

    In turn, that is in the order in which they wait, and largest first, which usually leaves fewer gaps. If a part of a
    large backlog shows that it takes more in turn, how much more is taken from that part alone. The cluster is left as
    it was. Raises `StoppedError` if it is stopped before any order was tried to the end.
    """
    waiting = _in_turn(site, wanting())
    orders = [waiting, _largest_first(site, kinds, waiting)]
    if orders[0] == orders[1]:
        orders.pop()
    guesses = [_guess(site, kinds, pods) for pods in orders]
    found: dict[int, MoreNodes] = {}

    def is_enough() -> bool:
        return 0 in found and found[0].is_least and (len(kinds) == 1 or not by_price)

    def in_order(number: int) -> MoreNodes | None:
        if number and is_enough():
            return None
        with Rehearsal(site):
            if number:
                _queue_anew(site, orders[number])
            return add_until_placed(site, kinds, wanting, by_price=by_price, guess=guesses[number])

    guess = guesses[0]
    if guess is not None and _is_clearly_less(guesses[-1], guess):
        more = in_order(1)
        if more is not None and _is_clearly_less(more, guess):
            return Cheapest(more, msgspec.structs.replace(guess, at_least=more.at_least), orders[1])
    for number, more in spread(in_order, len(orders), watch):
        if more is not None:  # looked at in between, where both are tried one after the other
            found |= {number: more}
    if not found:
        raise StoppedError
    if len(found) == 1 or is_enough():
        return Cheapest(found[min(found)], None, orders[1] if min(found) else ())
    in_turn, largest_first = found[0], found[1]
    if _cost_of(largest_first, by_price=by_price) < _cost_of(in_turn, by_price=by_price):
        return Cheapest(largest_first, in_turn, orders[1])
    return Cheapest(in_turn, None, ())


def _is_clearly_less(more: MoreNodes | None, than: MoreNodes) -> bool:
    """Say whether it takes less, and not just as a guess may be wrong."""
    return more is not None and not more.left and CLEARLY * sum(each.count for each in more.nodes) < than.nodes[0].count


def _cost_of(more: MoreNodes, *, by_price: bool) -> tuple[float, ...]:
    """Return what to minimize: pods without a place, money if that counts, nodes."""
    nodes = sum(each.count for each in more.nodes)
    return more.left, sum(each.price or 0.0 for each in more.nodes) if by_price else 0.0, nodes


def _largest_first(site: Site, kinds: Sequence[NodeKind], pods: Sequence[Pod]) -> list[Pod]:
    """Return pods by the largest share that they request of a node; those that request as much stay in their order."""

    def share(pod: Pod) -> float:
        requests = _info(site, pod).requests
        return max((amount / has for name, amount in requests.items() if (has := largest(name))), default=0.0)

    def largest(name: str) -> int:
        return max((_amount(kind.model, name) for kind in kinds), default=0)

    return sorted(pods, key=share, reverse=True)


def _info(site: Site, pod: Pod) -> PodInfo:
    """Return a pod as plugins see it; reused from the core, if that has this pod."""
    intake = site.cluster.core.intake
    known = intake.pod(pod.key)
    return known if known is not None and known.pod is pod else intake.info(pod)


def _in_turn(site: Site, pods: Sequence[Pod]) -> list[Pod]:
    """Return the pods that are queued, those that have waited longest first."""
    turns = {each.pod.uid: (each.timestamp, number) for number, each in enumerate(site.cluster.core.queue)}
    queued = [pod for pod in pods if pod.metadata.uid in turns]
    return sorted(queued, key=lambda pod: turns[pod.metadata.uid])


def _queue_anew(site: Site, pods: Iterable[Pod]) -> None:
    """Make pending pods wait in this order, as if they had been deleted and created again; priorities still count."""
    for pod in pods:
        site.cluster.handle(ObjectEvent("DELETED", "Pod", pod))
        site.cluster.handle(ObjectEvent("ADDED", "Pod", pod))


def add_until_placed(
    site: Site,
    kinds: Sequence[NodeKind],
    wanting: Callable[[], list[Pod]],
    *,
    by_price: bool = False,
    moved: Iterable[Pod] = (),
    guess: MoreNodes | None = None,
) -> MoreNodes:
    """Return how many nodes it takes until all pods of `wanting` have a place; the cluster is left as it was.

    `wanting` returns the pods that have none yet; pods preempted meanwhile want a place as well. Pods that the fewest
    kinds would take come first. Of several kinds, the one that by the sums takes the fewest nodes, or with `by_price`
    the least money, is added. `moved` has pods that have found another place, and might have been on the new nodes
    instead.

    Nodes are added in rounds, but the reader of the answer adds them all at once, and then the scheduler may place pods
    differently. So the same number is afterwards added at once, plus whatever is then missing. It begins with a `guess`
    of nodes of the first kind, if there is one: if these are enough, nothing is done twice. In the end nodes are taken
    away again.
    """
    waiting = wanting()
    least = fewest_nodes(site, kinds, waiting, moved)
    trials = _Trials(site, kinds, wanting, len(waiting))
    trials.add(Counter() if guess is None else Counter({0: guess.nodes[0].count}), by_price=by_price)
    fails = trials.take_away(least, by_price=by_price)
    left = trials.come_to(trials.added).left
    return MoreNodes(
        nodes=tuple(
            AddedNodes(kinds[at].name, count, None if (price := kinds[at].price) is None else price * count)
            for at, count in sorted(trials.added.items())
            if count
        ),
        at_least=least,
        placed=len({pod.key for pod in waiting} - left),
        left=len(left),
        one_fewer_fails=fails,
    )


class _Outcome(NamedTuple):
    """The result of adding nodes."""

    left: frozenset[str]
    """The pods that have no place, by `namespace/name`."""
    gone: int
    """How many pods have made way for good."""

    @property
    def harm(self) -> int:
        """How many pods are worse off than they could be."""
        return len(self.left) + self.gone


class _Trials:
    """Adds nodes to the cluster as it is, all at once, and takes them back; remembers the result for each number."""

    __slots__ = ("_known", "_pods", "_site", "_spent", "_wanting", "added", "kinds")

    def __init__(self, site: Site, kinds: Sequence[NodeKind], wanting: Callable[[], list[Pod]], pods: int) -> None:
        """`pods` is how many are placed in a trial."""
        self._site, self.kinds, self._wanting, self._pods = site, kinds, wanting, pods
        self._known: dict[frozenset[tuple[int, int]], _Outcome] = {}
        self._spent = 0
        self.added: Counter[int] = Counter()
        """How many nodes of each kind it takes, as far as is known."""

    def come_to(self, added: Counter[int]) -> _Outcome:
        """Return the result of so many nodes of each kind."""
        key = _counts(added)
        if key not in self._known:
            with Rehearsal(self._site):
                seen = len(self._site.cluster.evictions)
                for at, count in sorted(added.items()):
                    add_nodes_like(self._site, self.kinds[at].model, count)
                self._site.settle()
                self._known[key] = self._outcome(seen)
        return self._known[key]

    def _outcome(self, seen: int) -> _Outcome:
        objects = self._site.cluster.objects
        left = frozenset(pod.key for pod in _with_evicted(self._site, self._wanting(), seen))
        gone = {each.pod for each in self._site.cluster.evictions[seen:] if ("Pod", each.pod) not in objects}
        return _Outcome(left, len(gone))

    def add(self, at_once: Counter[int], *, by_price: bool) -> None:
        """Find nodes with which every pod that can be placed has a place, beginning with these."""
        self.added = at_once
        for _ in range(RUNS):
            seen = len(self._site.cluster.evictions)
            before = self.added

            def without_place(seen: int = seen) -> list[Pod]:
                return _with_evicted(self._site, self._wanting(), seen)

            with Rehearsal(self._site):
                adding = _Adding(self._site, self.kinds, without_place, by_price=by_price)
                adding.run(before)
                self.added = adding.added
                is_at_once = not adding.is_in_steps and (not before or before == self.added)
                if is_at_once:
                    self._known[_counts(self.added)] = self._outcome(seen)
            if is_at_once or before == self.added:
                return

    def take_away(self, least: int, *, by_price: bool) -> bool:
        """Take nodes away as long as no pod is worse off; say whether it is known that one fewer of a kind is not
        enough.

        Invariant: `added` is a number of nodes that was tried, and no pod is worse off with it than at first. Numbers
        below `least` need not be tried if every pod has a place.
        """
        enough = self.come_to(self.added).harm
        kinds = sorted(self.added, key=lambda at: -(self.kinds[at].price or 0.0)) if by_price else sorted(self.added)
        is_changed = True
        while is_changed:
            is_changed = False
            for at in kinds:
                others = sum(count for other, count in self.added.items() if other != at)
                fails = -1 if enough else max(least - others - 1, -1)
                tried = self.added[at] - 1  # mostly the one that fails
                while fails < self.added[at] - 1:
                    fewer = Counter({**self.added, at: tried})
                    try:
                        if not self._may_try(fewer):
                            return False
                        does = self.come_to(fewer).harm <= enough
                    except StoppedError:
                        return False
                    if does:
                        self.added, is_changed = fewer, True
                    else:
                        fails = tried
                    tried = (fails + self.added[at]) // 2
        return True

    def _may_try(self, added: Counter[int]) -> bool:
        if _counts(added) not in self._known:
            self._spent += self._pods
        return self._spent <= PODS_AT_MOST


def _counts(added: Mapping[int, int]) -> frozenset[tuple[int, int]]:
    return frozenset((at, count) for at, count in added.items() if count)


def _guess(site: Site, kinds: Sequence[NodeKind], pods: Sequence[Pod]) -> MoreNodes | None:
    """Guess how many nodes of the only kind a large backlog takes in this order; None if that cannot be said.

    Nodes added in rounds fill up differently from nodes that are there at once, so counting in rounds means placing all
    pods, and then placing all of them again to try the number. If each shape has many pods, placing a part of each is
    enough: how many more of the part one node more would place says what fraction of a node is missing in the end.
    """
    if len(kinds) != 1 or len(site.cluster.objects) >= 2 * len(pods):
        return None
    infos, kind = [_info(site, pod) for pod in pods], kinds[0]
    counts = Counter(info.shape for info in infos)
    part = min(min(counts.values()) // SAMPLED, needed_of(kind.model, infos) // SAMPLED_NODES)
    if part < PART_AT_LEAST:
        return None
    numbers: defaultdict[object, Iterator[int]] = defaultdict(count)
    sample = [info.pod for info in infos if not next(numbers[info.shape]) % part]
    small = site.again(sample)

    @cache
    def left(nodes: int) -> int:
        """Return how many of the part have no place on so many nodes."""
        with Rehearsal(small):
            add_nodes_like(small, kind.model, nodes)
            small.settle()
            return len(small.cluster.without_node)

    nodes = needed_of(kind.model, (_info(small, pod) for pod in sample)) - 1
    for _ in range(GUESSES):
        missing = left(nodes)
        if not missing:
            nodes -= 1
        elif left(nodes + 1):
            nodes += max(missing * nodes // max(len(sample) - missing, 1), 1)
        elif 0 < missing <= (more := left(nodes - 1) - missing):
            times = min(counts[shape] / math.ceil(counts[shape] / part) for shape in counts)  # more would waste nodes
            found = math.ceil(round((nodes + missing / more) * times, 6))
            price = None if kind.price is None else kind.price * found
            told = MoreNodes((AddedNodes(kind.name, found, price),), placed=len(pods), tried_with=len(sample))
            return None if kind.most is not None and found > kind.most else told
        else:
            break
    return None


class _Sparse(NamedTuple):
    """The nodes of the last round, and how many pods they took of those that the sums had said."""

    kind: int = -1
    nodes: int = 0
    placed: int = 0
    expected: int = 0

    def count_for(self, kind: int, pods: int) -> int:
        """Return how many nodes of a kind pods take that are kept apart: as many for each pod as in the last round.

        At most twice as many as then, since the rest may lie closer; 0 where the sums were not that far off.
        """
        if kind != self.kind or not 0 < 2 * self.placed < self.expected:
            return 0
        return min(2 * self.nodes, math.ceil(pods * self.nodes / self.placed))


class _Adding:
    """Adds nodes to a cluster, round by round."""

    __slots__ = ("_by_price", "_kinds", "_site", "_useless", "_wanting", "added", "is_in_steps")

    def __init__(
        self, site: Site, kinds: Sequence[NodeKind], wanting: Callable[[], list[Pod]], *, by_price: bool
    ) -> None:
        self._site, self._kinds, self._wanting, self._by_price = site, kinds, wanting, by_price
        self._useless: set[tuple[object, int]] = set()
        self.added: Counter[int] = Counter()
        """How many nodes of each kind were added and are used."""
        self.is_in_steps = False
        """Whether other nodes were there for a while than there are in the end."""

    def run(self, at_once: Mapping[int, int]) -> None:
        """Add so many nodes of each kind at once, and then others until no pod is left or no node helps."""
        if at_once:
            self._add(at_once)
        left = self._wanting()
        sparse = _Sparse()
        for number in range(ROUNDS):
            wishes = self._together(left) if left else []
            if not wishes:
                return
            self.is_in_steps = self.is_in_steps or number > 0
            counts: Counter[int] = Counter()
            for wish in wishes:
                at, count = _chosen(self._kinds, wish, by_price=self._by_price)
                counts[at] += max(count, sparse.count_for(at, len(wish.pods)))
            used = self._add_more_and_more(counts, wishes)
            now = self._wanting()
            if not used:
                self._useless |= {(pod.shape, at) for wish in wishes for pod in wish.pods for at in counts}
            sparse = _Sparse()
            if len(wishes) == 1:
                sparse = _Sparse(next(iter(counts)), used, len(left) - len(now), len(wishes[0].pods))
            left = now

    def _together(self, left: Sequence[Pod]) -> list[_Wish]:
        """Return the pods to place next, with the kinds that would take them; nothing if no node helps.

        A gang is placed together. So some of its pods bring along the others that need other kinds of nodes.
        """
        kinds = self._kinds
        open_kinds = [at for at, kind in enumerate(kinds) if kind.most is None or self.added[at] < kind.most]
        wishes = [each for each in _wishes(self._site, kinds, open_kinds, left, self._useless) if each.kinds]
        if not wishes:
            return []
        first = min(wishes, key=lambda each: (len(each.kinds), -len(each.pods)))
        gangs = {gang for pod in first.pods if (gang := _gang_of(self._site, pod)) is not None}
        others = [wish.of_gangs(self._site, gangs) for wish in wishes if wish is not first] if gangs else []
        return [first, *(wish for wish in others if wish.pods)]

    def _add_more_and_more(self, counts: Mapping[int, int], wishes: Sequence[_Wish]) -> int:
        """Add nodes, for a gang more and more until it is placed; return how many are used.

        With too few nodes no pod of a gang has a place, so a number that is too small looks as if no number were
        enough. With a node for each pod there is nothing left to try.
        """
        members = (_gang_of(self._site, pod) for wish in wishes for pod in wish.pods)
        sizes = Counter(gang for gang in members if gang is not None)
        most = max(sizes.values(), default=0)
        while True:
            possible = {at: self._possible(at, count) for at, count in counts.items()}
            used = self._add(possible)
            larger = {at: min(2 * count, max(most, count)) for at, count in counts.items()}
            if used or all(self._possible(at, larger[at]) == possible[at] for at in larger):
                return used
            counts = larger

    def _possible(self, at: int, count: int) -> int:
        most = self._kinds[at].most
        return count if most is None else min(count, most - self.added[at])

    def _add(self, counts: Mapping[int, int]) -> int:
        """Add nodes and place what fits; take unused ones away again, and return how many are left."""
        site = self._site
        names = {at: add_nodes_like(site, self._kinds[at].model, count) for at, count in sorted(counts.items())}
        site.settle()
        table = site.cluster.core.cache.table
        # The scheduler may have put pods elsewhere than the sums supposed; an unused node is not needed.
        used = set(used_rows(table).tolist())
        idle = [name for some in names.values() for name in some if table.row_of[name] not in used]
        remove_nodes(site, idle, "removal of {}")
        for at, some in names.items():
            self.added[at] += len(set(some) - set(idle))
        self.is_in_steps = self.is_in_steps or bool(idle)
        return sum(map(len, names.values())) - len(idle)


def _wishes(
    site: Site,
    kinds: Sequence[NodeKind],
    open_kinds: Sequence[int],
    pods: Iterable[Pod],
    useless: Collection[tuple[object, int]] = (),
) -> list[_Wish]:
    """Return the pods by the kinds that would take them, asked of an empty node of each kind."""
    core = site.cluster.core
    by_shape: defaultdict[object, list[PodInfo]] = defaultdict(list)
    for pod in pods:
        info = _info(site, pod)
        by_shape[info.shape].append(info)
    found: dict[tuple[int, ...], _Wish] = {}
    with Rehearsal(site):
        rows = {}
        for at in open_kinds:
            (name,) = add_nodes_like(site, kinds[at].model, 1)
            rows[at] = core.cache.table.row_of[name]
        free = _Free(core, without=list(rows.values()))
        for shape, infos in by_shape.items():
            says = judge(core, infos[0])
            taking = tuple(at for at, row in rows.items() if says.fits[row] and (shape, at) not in useless)
            wish = found.setdefault(taking, _Wish(taking, [], _Room(Counter(), Counter())))
            wish.pods.extend(infos)
            free.note(infos[0], says, wish.room)
    return list(found.values())


class _Free:
    """What is free on the nodes of a core."""

    __slots__ = ("_amounts", "_noted", "_valid")

    def __init__(self, core: Core, *, without: Sequence[int]) -> None:
        """`without` are rows that do not count."""
        table = core.cache.table
        self._valid = table.valid.copy()
        self._valid[without] = False
        self._amounts = _free_on(table)
        self._noted: dict[int, Mask] = {}
        """By room, the nodes that are counted in it."""

    def note(self, pod: PodInfo, says: FilterOutcome, room: _Room) -> None:
        """Include the nodes to which pods of a shape may go, now or once others have.

        The verdict on a node may change with the pods that are placed, unless it is marked as final.
        """
        mask = self._valid.copy()
        for status, rows in says.decision.findings.rejected(self._valid):
            if status.code is not Code.UNSCHEDULABLE:
                mask[rows] = False
        whole = np.maximum(self._amounts[PODS], 0)
        for name, amount in pod.requests.items():
            if amount:
                has = self._amounts.get(name)
                whole = np.minimum(whole, 0 if has is None else np.maximum(has, 0) // amount)
        mask &= whole > 0
        room.pods[pod.shape] = int(whole[mask].sum())
        noted = self._noted.setdefault(id(room), np.zeros_like(mask))
        mask &= ~noted
        noted |= mask
        for name, amounts in self._amounts.items():
            room.amounts[name] += int(np.maximum(amounts, 0)[mask].sum())


def _free_on(table: NodeTable) -> dict[str, Int64]:
    """Return, by resource, what is free on each row, which is negative on a node that has become smaller."""
    free = {name: table.allocatable[at] - table.requested[at] for name, at in table.resource_index.items()}
    free[PODS] = table.allowed_pods - table.pod_count
    return free


def _chosen(kinds: Sequence[NodeKind], wish: _Wish, *, by_price: bool) -> tuple[int, int]:
    """Return the kind to add nodes of, and how many."""
    found = []
    for at in wish.kinds:
        count = wish.nodes_like(kinds[at].model)
        price = kinds[at].price
        cost = (math.inf if price is None else price * count) if by_price else 0.0
        found.append((cost, count, at))
    _, count, at = min(found)
    return at, count


def needed_of(model: Node, pods: Iterable[PodInfo], room: Mapping[str, int] = MappingProxyType({})) -> int:
    """Return how many nodes like this one the pods need, by the sums of their requests less some room; at least 1."""
    needs: Counter[str] = Counter()
    for pod in pods:
        needs[PODS] += 1
        needs.update(pod.requests)
    missing = ((amount - room.get(name, 0), _amount(model, name)) for name, amount in needs.items())
    return max(1, *(math.ceil(amount / has) for amount, has in missing if has > 0))


def _gang_of(site: Site, pod: PodInfo) -> tuple[str, str] | None:
    """Return the kind and name of what a pod is placed together with; None where it is placed alone."""
    if pod.spec.scheduling_group is None and COSCHEDULING_LABEL not in pod.labels:
        return None
    gang = declared_gang(site.cluster, pod.pod)
    return None if gang is None else (gang.kind, gang.key)


def _amount(model: Node, resource: str) -> int:
    quantity = model.status.allocatable.get(resource)
    if quantity is None:
        return 0
    return milli_value(quantity) if resource == CPU else value(quantity)


def _with_evicted(site: Site, pods: list[Pod], seen: int) -> list[Pod]:
    """Return the pods, and those that have been preempted since that many had been and have no place."""
    known = {pod.key for pod in pods}
    keys = dict.fromkeys(each.pod for each in site.cluster.evictions[seen:] if each.pod not in known)
    found = (site.cluster.objects.get(("Pod", key)) for key in keys)
    return pods + [pod for pod in found if pod is not None and is_pending(pod)]


def fewest_nodes(site: Site, kinds: Sequence[NodeKind], pods: Sequence[Pod], moved: Iterable[Pod] = ()) -> int:
    """Return a lower bound on the number of nodes, whichever they are: the sums over the largest node of the kinds.

    What pods request beyond the room of existing nodes has to go on new nodes, however the pods are placed. Pods that
    have moved are placed anew as well, so their places count as room.
    """
    wishes = [each for each in _wishes(site, kinds, range(len(kinds)), pods) if each.kinds] if pods else []
    wanting = [pod for wish in wishes for pod in wish.pods]
    placed = [_info(site, pod) for pod in moved]
    needs: Counter[str] = Counter()
    for pod in (*wanting, *placed):
        needs[PODS] += 1
        needs.update(pod.requests)
    room = _room(site, [_info(site, pod) for pod in pods], placed)
    largest = {name: max(_amount(kind.model, name) for kind in kinds) for name in needs}
    missing = {name: max(amount - room.get(name, 0), 0) for name, amount in needs.items()}
    return max((math.ceil(missing[name] / most) for name, most in largest.items() if most), default=0) if wanting else 0


def _room(site: Site, wanting: Sequence[PodInfo], placed: Sequence[PodInfo]) -> dict[str, int]:
    """Return the most that these pods could take of the existing nodes, with all of them removed."""
    table = site.cluster.core.cache.table
    free = _free_on(table)
    leaving = [(pod, table.row_of[pod.node_name]) for pod in placed]
    priorities = [pod.priority for pod in (*wanting, *placed) if pod.spec.preemption_policy != "Never"]
    strongest = max(priorities, default=None)
    preempts = strongest is not None and min(table.pods_by_priority, default=strongest) < strongest
    if preempts:  # what nothing replaces leaves room and needs none
        running = ((pod, row) for row in table.rows().tolist() for pod in table.pods[row].values())
        leaving += [(pod, row) for pod, row in running if pod.priority < strongest and owner_of(pod.pod) is None]
    for pod, row in leaving:
        free[PODS][row] += 1
        for name, amount in pod.requests.items():
            if amount:
                free[name][row] += amount
    # Room that is too small for any of the pods is useless, unless a pod that makes way adds to it.
    is_of_use = table.valid & preempts
    for requests in {frozenset(pod.requests.items()) for pod in (*wanting, *placed)}:
        fits = table.valid & (free[PODS] > 0)
        for name, amount in requests:
            fits &= free[name] >= amount if name in free else amount == 0
        is_of_use |= fits
    return {name: int(np.maximum(amounts, 0)[is_of_use].sum()) for name, amounts in free.items()}


def nodes_in_words(more: MoreNodes) -> str:
    """Say which nodes, what they cost, and for how many pods none helps."""
    most = "" if more.is_least or more.one_fewer_fails else "at most "
    told = [f"{most}{each.count:,} like {each.like}" for each in more.nodes]
    prices = [each.price for each in more.nodes]
    total = sum(price for price in prices if price is not None)
    cost = f" for {total:g}" if prices and None not in prices else ""
    left = (
        f"; {more.left:,} {'pod fits' if more.left == 1 else 'pods fit'} on no more of them"
        if more.left and more.nodes
        else ""
    )
    return (", ".join(told) + cost + left) if more.nodes else "no node like one that is left helps"
