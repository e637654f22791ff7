"""The autoscaler's part: which nodes a backlog needs, which nodes are not needed, and what spot interruptions take
away.

`autoscale` answers for node groups (`node_groups`), decided by the scheduler on a simulated cluster. Nodes are added as
`more_nodes` does. Nodes are tried for removal one after the other, the least used first: a node can go if budgets let
all of its pods go, all of them find another place without preempting, and nothing on it would be lost. Pending pods
stay in play meanwhile, and may take room that is freed. The backlog must not need what can go: so a node can go only if
it can also go after the nodes have been added, or the pods moved, that the answer proposes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from berth.api.pod import Pod
from berth_workbench.planning.dynamic_admission import unasked
from berth_workbench.planning.more_nodes import (
    Cheapest,
    MoreNodes,
    add_until_placed,
    cheapest_until_placed,
    fewest_nodes,
)
from berth_workbench.planning.node_groups import NodeGroup, NodeGroupSpec, groups_in
from berth_workbench.planning.rebalance.movability import LocalVolumes, local_volumes
from berth_workbench.planning.room_by_moving import MoveSearch, RoomByMoving, moved
from berth_workbench.planning.survival import Failure, loss_of
from berth_workbench.planning.whatif import natural
from berth_workbench.simulation.budgets import follows_its_node, is_active, is_daemon, owner_of
from berth_workbench.simulation.cluster import EXTENDERS_LEFT_OUT
from berth_workbench.simulation.measures import is_pending
from berth_workbench.simulation.missing_resources import missing_resources
from berth_workbench.simulation.node_changes import drain_node, remove_nodes, set_unschedulable
from berth_workbench.simulation.prices import Prices
from berth_workbench.simulation.rehearsal import Rehearsal
from berth_workbench.simulation.site import Site
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.steps import take_steps
from berth_workbench.simulation.watch import UNWATCHED, StoppedError, WorkWatch

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
"""With the value `false` the autoscaler leaves a pod, and so its node, alone."""
USED_AT_MOST = 0.5
"""Nodes of which more is requested are not tried for removal; the cluster autoscaler's own default."""
TRIED_AT_MOST = 200
"""So many nodes are tried for removal, unless others are asked for."""


class RemovableNode(msgspec.Struct, frozen=True, rename="camel"):
    """A node that can go once those before it are gone."""

    node: str
    group: str
    moved: int
    """How many pods find another place."""
    price: float | None


class GroupPlan(msgspec.Struct, frozen=True, rename="camel"):
    """A node group, and what would be done with it."""

    name: str
    nodes: int
    added: int
    removed: int
    price: float | None
    """Of a node."""
    is_spot: bool


class AutoscalePlan(msgspec.Struct, frozen=True, rename="camel"):
    """What an autoscaler could do."""

    backlog: int
    """How many pods have no place as it is."""
    more: MoreNodes
    """What the backlog takes, without removing anything."""
    more_in_turn: MoreNodes | None
    """What it takes in the order in which it waits, where that is more: `more` has the largest pods first."""
    moving: RoomByMoving | None
    """Moves of running pods that make room for some of the backlog without a new node; null where none were found."""
    removable: tuple[RemovableNode, ...]
    """In this order, whether or not what the backlog takes was added or moved before."""
    saves: float | None
    """What the removable nodes cost; null where that is not known of all."""
    tried: int
    """How many nodes were tried for removal; others are used more, or too many."""
    spot: tuple[Failure, ...]
    """Each spot group lost at once."""
    groups: tuple[GroupPlan, ...]
    cost: float | None
    """What all nodes of the groups cost now; null where that is not known of all."""
    notes: tuple[str, ...] = ()
    is_complete: bool = True


def autoscale_of(
    situation: Situation,
    specs: Sequence[NodeGroupSpec],
    *,
    prices: Prices | None = None,
    used_at_most: float = USED_AT_MOST,
    tried_at_most: int = TRIED_AT_MOST,
    watch: WorkWatch = UNWATCHED,
) -> AutoscalePlan:
    """Return what an autoscaler could do for a cluster, after the situation's changes and manifests.

    Raises `NodeGroupError`, `ObjectError`, `ManifestError`, `ChangeError`, `StuckError`, `StoppedError`.
    """
    site = situation.untouched(watch)
    groups = groups_in(specs, site.cluster.nodes.values(), prices)
    site.settle()
    take_steps(site, situation.steps, situation.namespace)
    local = local_volumes(situation.snapshot.documents)
    found = autoscale(site, groups, used_at_most=used_at_most, tried_at_most=tried_at_most, local=local, watch=watch)
    return msgspec.structs.replace(found, notes=(*found.notes, *unasked(situation)))


def autoscale(
    site: Site,
    groups: Sequence[NodeGroup],
    *,
    used_at_most: float = USED_AT_MOST,
    tried_at_most: int = TRIED_AT_MOST,
    local: Mapping[str, LocalVolumes] | None = None,
    watch: WorkWatch = UNWATCHED,
) -> AutoscalePlan:
    """Return what an autoscaler could do for a cluster that is at rest; it is left as it was.

    `local` are the local volumes of pods, by `namespace/name`, which the objects of the site no longer show. If it is
    stopped, what was not looked at by then is left out.
    """
    cluster = site.cluster
    site.count_no_more()
    within = watch.within()
    by_price = all(each.price is not None for each in groups)
    there = cluster.nodes
    present = [each for each in groups if any(name in there for name in each.members)]
    lost = {each.spec.name: [name for name in each.members if name in there] for each in present}
    watch.begin("losing spot nodes", len(present))
    spot_groups = {each.spec.name: lost[each.spec.name] for each in present if each.spec.spot}
    spot = loss_of(site, spot_groups, watch=watch)
    with Rehearsal(site):
        removable, tried = removable_nodes(site, groups, used_at_most, tried_at_most, watch)
    backlog = [pod.key for pod in _waiting(cluster.of(Pod))]
    watch.begin("looking for what the backlog takes")

    def wanting() -> list[Pod]:
        return list(_waiting(found for key in backlog if (found := cluster.objects.get(("Pod", key))) is not None))

    kinds = [each.kind for each in groups]
    more = MoreNodes(at_least=fewest_nodes(site, kinds, wanting()), left=len(backlog), tried_with=0)
    in_turn, moving = None, None
    is_complete = len(spot) == len(spot_groups) and not watch.is_stopped
    try:
        cheapest = cheapest_until_placed(site, kinds, wanting, by_price=by_price, watch=within)
        more, in_turn = cheapest.more, cheapest.in_turn
        with Rehearsal(site):
            moving = MoveSearch(site, wanting, local or {}).run() if backlog else None
            if moving is not None:
                rest = add_until_placed(site, kinds, wanting, by_price=by_price)
                moving = msgspec.structs.replace(moving, more=rest)
        removable = _Sparing(site, groups, wanting, cheapest, moving).spared(removable)
        is_complete = is_complete and not watch.is_stopped
    except StoppedError:
        is_complete = False
        removable = removable if not backlog else []
    added = {each.like: each.count for each in more.nodes}
    plans = []
    for each in groups:
        name = each.spec.name
        gone = sum(one.group == name for one in removable)
        nodes = len(lost.get(name, ()))
        plans.append(GroupPlan(name, nodes, added.get(name, 0), gone, each.price, each.spec.spot))
    return AutoscalePlan(
        backlog=len(backlog),
        more=more,
        more_in_turn=in_turn,
        moving=moving,
        removable=tuple(removable),
        saves=_total(each.price for each in removable),
        tried=tried,
        spot=tuple(spot),
        groups=tuple(plans),
        cost=_total(None if each.price is None else each.price * each.nodes for each in plans if each.nodes),
        notes=tuple(_notes(site, groups)),
        is_complete=is_complete,
    )


def _notes(site: Site, groups: Sequence[NodeGroup]) -> Iterable[str]:
    if site.cluster.leaves_out_extenders:
        yield EXTENDERS_LEFT_OUT
    yield from missing_resources(site.cluster, _waiting(site.cluster.of(Pod)), (each.model for each in groups))
    yield from site.cluster.refused_in_words()
    for each in groups:
        if len(each.members) < each.spec.min:
            yield f"group {each.spec.name} has {len(each.members)} nodes, fewer than its min of {each.spec.min}"


def _total(prices: Iterable[float | None]) -> float | None:
    known = list(prices)
    return None if None in known else sum(price for price in known if price is not None)


def _waiting(pods: Iterable[Pod]) -> Iterable[Pod]:
    """The pods that have no place and could have one; daemons belong to their nodes."""
    return (pod for pod in pods if is_pending(pod) and not pod.spec.scheduling_gates and not is_daemon(pod))


def removable_nodes(
    site: Site,
    groups: Sequence[NodeGroup],
    used_at_most: float = USED_AT_MOST,
    tried_at_most: int = TRIED_AT_MOST,
    watch: WorkWatch = UNWATCHED,
) -> tuple[list[RemovableNode], int]:
    """Remove nodes as long as they are not needed; return them, and how many were tried."""
    there = site.cluster.nodes
    used = {name: _used(site, name) for group in groups for name in group.members if name in there}
    order = sorted((each for each in used if used[each] <= used_at_most), key=lambda each: (used[each], natural(each)))
    watch.begin("trying to remove nodes", min(len(order), tried_at_most))
    return _removed(site, groups, order, tried_at_most, watch)


def _removed(
    site: Site,
    groups: Sequence[NodeGroup],
    order: Sequence[str],
    tried_at_most: int = TRIED_AT_MOST,
    watch: WorkWatch = UNWATCHED,
) -> tuple[list[RemovableNode], int]:
    """Remove those of some nodes that are not needed, in this order; return them, and how many were tried."""
    there = site.cluster.nodes
    group_of = {name: each for each in groups for name in each.members if name in there}
    left = {each.spec.name: sum(one is each for one in group_of.values()) for each in groups}
    found: list[RemovableNode] = []
    tried = 0
    for name in order:
        group = group_of[name]
        if tried >= tried_at_most or watch.is_stopped:
            break
        if left[group.spec.name] <= group.spec.min:
            continue
        tried += 1
        watch.advance()
        moving = _moving(site, name)
        try:
            goes = moving is not None and _goes(site, name)
        except StoppedError:
            break
        if goes and moving is not None:
            left[group.spec.name] -= 1
            found.append(RemovableNode(name, group.spec.name, len(moving), group.price))
    return found, tried


class _Sparing:
    """Keeps nodes that the backlog needs, given what is proposed for it, from being removed.

    The reader of the answer may add nodes, move pods and remove nodes in any order. So the nodes that `spared` leaves
    can go one after the other both as things are and after the proposal; and the proposal achieves as much without
    them.
    """

    __slots__ = ("_groups", "_proposals", "_site", "_wanting")

    def __init__(
        self,
        site: Site,
        groups: Sequence[NodeGroup],
        wanting: Callable[[], list[Pod]],
        cheapest: Cheapest,
        moving: RoomByMoving | None,
    ) -> None:
        self._site, self._groups, self._wanting = site, groups, wanting
        kinds = [each.kind for each in groups]
        self._proposals: list[tuple[Callable[[], bool], int]] = []
        """What carries each proposal out and says whether that went well, and how many pods have no place then."""
        if cheapest.more.nodes:
            self._proposals.append((lambda: cheapest.carry_out(site, kinds), cheapest.more.left))
        if moving is not None:
            rest = Cheapest(moving.more, None, ())
            self._proposals.append((lambda: moved(site, moving.moves) and rest.carry_out(site, kinds), rest.more.left))

    def spared(self, removable: list[RemovableNode]) -> list[RemovableNode]:
        """Return those of some nodes that can go, in their order; as things are, all of them can."""
        if not self._proposals or not removable:
            return removable
        before: list[RemovableNode] = []
        while removable != before:
            before = removable
            for carry_out, _ in self._proposals:
                with Rehearsal(self._site):
                    removable = self._removed(removable) if carry_out() else []
            if len(removable) < len(before):
                with Rehearsal(self._site):
                    removable = self._removed(removable)
        # Of nodes that can go one after the other, the first few can go as well.
        good, bad = 0, len(removable) + 1
        while bad - good > 1:
            middle = len(removable) if bad > len(removable) else (good + bad) // 2
            if self._does_without(removable[:middle]):
                good = middle
            else:
                bad = middle
        return removable[:good]

    def _removed(self, removable: Sequence[RemovableNode]) -> list[RemovableNode]:
        return _removed(self._site, self._groups, [each.node for each in removable])[0]

    def _does_without(self, removable: Sequence[RemovableNode]) -> bool:
        """Say whether the proposal achieves as much once these nodes are gone."""
        for carry_out, left in self._proposals:
            with Rehearsal(self._site) as rehearsal:
                self._removed(removable)
                if not carry_out() or len(self._wanting()) > left:
                    return False
                if any(_loses(*each) for each in rehearsal.changed_pods().values()):
                    return False
        return True


def _used(site: Site, name: str) -> float:
    """The largest part of any resource that the pods on a node request, without its daemons."""
    core = site.cluster.core
    table = core.cache.table
    row = table.row_of[name]
    found = 0.0
    for resource, index in table.resource_index.items():
        if has := int(table.allocatable[index, row]):
            infos = (info for info in table.pods[row].values() if not follows_its_node(info.pod))
            found = max(found, sum(info.requests.get(resource, 0) for info in infos) / has)
    return found


def _moving(site: Site, name: str) -> list[str] | None:
    """Return the pods that would have to move from a node; None if one of them would be lost, or must not move."""
    found = []
    for pod in site.pods_on(name):
        if follows_its_node(pod) or not is_active(pod):
            continue
        if owner_of(pod) is None or pod.metadata.annotations.get(SAFE_TO_EVICT) == "false":
            return None
        found.append(pod.key)
    return found


def _goes(site: Site, name: str) -> bool:
    """Remove a node if no pod loses its place by it; otherwise leave everything as it was.

    Pending pods may come to the node while it is drained, and take room once it is gone.
    """
    cluster = site.cluster
    with Rehearsal(site) as rehearsal:
        before = len(cluster.evictions)
        set_unschedulable(site, name, unschedulable=True)
        if not drain_node(site, name, f"removal of {name}"):
            return False
        site.settle()
        remove_nodes(site, [name], f"removal of {name}")
        site.settle()
        if len(cluster.evictions) > before or any(_loses(*each) for each in rehearsal.changed_pods().values()):
            return False
        rehearsal.keep()
    return True


def _loses(was: Pod | None, now: Pod | None) -> bool:
    """Say whether a pod has lost its place, or is gone for good."""
    if was is None or follows_its_node(was) or not is_active(was):
        return False
    return now is None or (bool(was.spec.node_name) and not now.spec.node_name)
