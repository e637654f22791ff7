"""NodeResourceTopologyMatch: places pods where a NUMA zone has room for them, and prefers nodes by their zones.

Upstream plugin `NodeResourceTopologyMatch`, with the NodeResourceTopology of topology.node.k8s.io. Nodes are rejected
where the kubelet, whose topology manager has the policy single-numa-node, would refuse the pod. Guaranteed pods are
scored by what zones have; all others score the same everywhere.

Deviations, in what upstream leaves to time or to crashes:

- The over-reserving cache is brought up to date when a report or a pod changes, and not every
  `cacheResyncPeriodSeconds`; a value above 0 only switches it on. Nodes need not have rejected a pod before.
- What is reserved for a pod stays reserved until the pod runs, also where a fingerprint matches before that, and ends
  when the pod is deleted. Nodes that come later are known, and those without reports any more are not.
- Where how a node aligns changes, that counts at once and its amounts later; what is reserved there stays reserved.
- Pods of another profile are foreign to the cache of this one, also where that profile has the plugin.
- With `discardReservedNodes` a node is used again when the API server shows the pod on it.
- A Guaranteed pod is rejected where upstream crashes: on nodes with gaps in their NUMA ids, and where there is nothing
  that it could be scored by.
- `preemptionMode` is not supported but as `Disabled`, its default.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, final

import msgspec

from berth.plugin import (
    MAX_NODE_SCORE,
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    Dependency,
    EventsPlugin,
    ExplainingPlugin,
    FilterPlugin,
    Handle,
    LesserRequestsPlugin,
    Node,
    NodeSignaturePlugin,
    NodeView,
    PodEventHandlerPlugin,
    PodInfo,
    PodUpdateHandlerPlugin,
    PodWhatIfPlugin,
    Promises,
    QueueingHint,
    ReservePlugin,
    ScorePlugin,
    SignaturePlugin,
    Status,
    invalid,
    queue_if,
    unsupported,
)
from berth_plugins.node_resources_allocatable import ResourceSpec
from berth_plugins.numa.alignment import STATUSES, Verdict, verdict
from berth_plugins.numa.cache import (
    ALL,
    AUTODETECT,
    DEDICATED,
    NONE,
    ONLY_EXCLUSIVE,
    ONLY_RESOURCES,
    PODS,
    SHARED,
    DiscardReserved,
    OverReserve,
    PodsOnNodes,
    Settings,
    TopologyCache,
    WatchedPod,
    WatchedPods,
)
from berth_plugins.numa.explanations import RejectedNode, lesser_requests, sentences
from berth_plugins.numa.requests import Ask, ask_of
from berth_plugins.numa.scores import LEAST_ALLOCATED, STRATEGIES, Spend, Strategy, score_of
from berth_plugins.numa.topology import TOPOLOGIES, NodeResourceTopology


class ScoringStrategy(msgspec.Struct, frozen=True):
    """How nodes are scored."""

    type: str = ""
    resources: tuple[ResourceSpec, ...] = ()


DEFAULT_RESOURCES = ResourceSpec("cpu", 1), ResourceSpec("memory", 1)


class NodeResourceTopologyCache(msgspec.Struct, frozen=True, rename="camel"):
    """How the over-reserving cache is kept; None is the default of each."""

    foreign_pods_detect: str | None = None
    resync_method: str | None = None
    informer_mode: str | None = None
    resync_scope: str | None = None


ALLOWED = {
    "foreign_pods_detect": (ALL, NONE, ONLY_EXCLUSIVE),
    "resync_method": (AUTODETECT, ALL, ONLY_EXCLUSIVE),
    "informer_mode": (SHARED, DEDICATED),
    "resync_scope": (ALL, ONLY_RESOURCES),
}
DISABLED, ENABLED = "Disabled", "Enabled"


class NodeResourceTopologyMatchArgs(msgspec.Struct, frozen=True, rename="camel"):
    """How nodes are scored, and what is known of them between two reports."""

    scoring_strategy: ScoringStrategy | None = None
    cache_resync_period_seconds: int | None = None
    discard_reserved_nodes: bool = False
    cache: NodeResourceTopologyCache | None = None
    preemption_mode: str | None = None

    def defaulted(self) -> "NodeResourceTopologyMatchArgs":
        """Fill in upstream's defaults."""
        strategy = self.scoring_strategy or ScoringStrategy(LEAST_ALLOCATED)
        resources = [ResourceSpec(each.name, each.weight or 1) for each in strategy.resources or DEFAULT_RESOURCES]
        strategy = ScoringStrategy(strategy.type, tuple(resources))
        cache = self.cache or NodeResourceTopologyCache()
        return msgspec.structs.replace(
            self,
            scoring_strategy=strategy,
            cache=NodeResourceTopologyCache(
                cache.foreign_pods_detect or ALL,
                cache.resync_method or AUTODETECT,
                cache.informer_mode or DEDICATED,
                cache.resync_scope or ALL,
            ),
            preemption_mode=self.preemption_mode or DISABLED,
        )

    def validate(self, path: str) -> Iterable[str]:
        """Refuse unknown values, and what is not supported."""
        strategy = (self.scoring_strategy or ScoringStrategy(LEAST_ALLOCATED)).type
        if strategy not in STRATEGIES:
            yield invalid(f"{path}.scoringStrategy.type", strategy, "invalid ScoringStrategyType")
        if self.preemption_mode not in (None, DISABLED, ENABLED):
            yield invalid(f"{path}.preemptionMode", self.preemption_mode, "invalid PreemptionMode")
        elif self.preemption_mode == ENABLED:
            yield unsupported(f"{path}.preemptionMode", ENABLED, [DISABLED])
        for field, allowed in ALLOWED.items():
            said = getattr(self.cache or NodeResourceTopologyCache(), field)
            if said is not None and said not in allowed:
                first, *rest = field.split("_")
                name = first + "".join(word.title() for word in rest)
                yield unsupported(f"{path}.cache.{name}", said, allowed)


# What reports and reservations change is told of by node, and counts as the doing of pods there.
DEPENDENCIES = frozenset({Dependency.NODE, Dependency.PODS_ON_NODE})


@final
class NodeResourceTopologyMatch(
    FilterPlugin,
    PodWhatIfPlugin,
    ScorePlugin,
    SignaturePlugin,
    NodeSignaturePlugin,
    ReservePlugin,
    PodEventHandlerPlugin,
    PodUpdateHandlerPlugin,
    ExplainingPlugin,
    LesserRequestsPlugin,
    EventsPlugin,
):
    """Filter, Score, and Reserve for the caches that need it."""

    name: ClassVar[str] = "NodeResourceTopologyMatch"
    args_type: ClassVar[type[msgspec.Struct]] = NodeResourceTopologyMatchArgs
    promises: ClassVar[Promises] = Promises(
        filter_depends_on=DEPENDENCIES,
        score_depends_on=DEPENDENCIES,
        filters_by_affecting_pods=True,
        hints_by_shape=True,
    )

    def __init__(self, args: NodeResourceTopologyMatchArgs, handle: Handle) -> None:
        args = args.defaulted()
        assert args.scoring_strategy is not None, "it has a default"
        weights = {each.name: each.weight for each in args.scoring_strategy.resources}
        self._strategy = Strategy(args.scoring_strategy.type, weights)
        self._handle = handle
        self._cache = self._made(args, handle)

    def _made(self, args: NodeResourceTopologyMatchArgs, handle: Handle) -> TopologyCache:
        """Return the cache that the args ask for."""
        reports = handle.follow(TOPOLOGIES, node_of=lambda report: str(report.metadata.name))
        if args.discard_reserved_nodes:
            return DiscardReserved(reports)
        if (args.cache_resync_period_seconds or 0) <= 0:
            return TopologyCache(reports)
        said = args.cache or NodeResourceTopologyCache()
        settings = Settings(said.foreign_pods_detect or ALL, said.resync_method or AUTODETECT, said.resync_scope or ALL)
        pods = WatchedPods(handle.follow(PODS, node_of=_node_of)) if said.informer_mode == DEDICATED else PodsOnNodes()
        return OverReserve(reports, pods, settings, lambda name: name == handle.profile().name)

    # -- what is taken --

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Note that a node was chosen for a pod."""
        if self._cache.follows_pods:
            self._cache.reserve(node_name, pod)
            self._tell_memos()
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Note that the pod will not go there."""
        if self._cache.follows_pods:
            self._cache.unreserve(node_name, pod)
            self._tell_memos()

    def pod_added(self, pod: PodInfo) -> None:
        """Note a pod."""
        if self._cache.follows_pods:
            self._cache.pod_seen(pod)
            self._tell_memos()

    def pod_updated(self, old: PodInfo, new: PodInfo) -> None:
        """Note what has become of a pod."""
        self.pod_added(new)

    def pod_removed(self, pod: PodInfo) -> None:
        """Note that a pod is gone."""
        if self._cache.follows_pods:
            self._cache.pod_gone(pod)
            self._tell_memos()

    def _tell_memos(self) -> None:
        for node_name in self._cache.take_touched():
            self._handle.node_changed(node_name)

    # -- Filter and Score --

    def signature(self, pod: PodInfo) -> Ask:
        """Pods that ask for the same get the same answers."""
        return ask_of(pod)

    def node_signature(self, node: NodeView) -> Hashable:
        """Nodes with the same resources and as much free in their zones are alike."""
        known = self._cache.known(node.name)
        topology = None if known.topology is None else known.topology.signature
        return known.is_fresh, topology, frozenset(node.node.status.allocatable)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Say whether the zones of a node have room for a pod."""
        return STATUSES.get(self._verdict(ask_of(pod), node.node))

    def _verdict(self, ask: Ask, node: Node) -> Verdict:
        known = self._cache.known(node.metadata.name)
        if ask.is_exempt:
            return Verdict.FITS
        if not known.is_fresh:
            return Verdict.STALE
        if known.topology is None:
            return Verdict.FITS
        return verdict(ask, known.topology, node.status.allocatable, self._strategy.kind)

    def is_affected_by(self, state: CycleState, pod: PodInfo, other: PodInfo) -> bool:
        """What zones have is a matter of reports: no what-if changes that."""
        return False

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Score one node."""
        ask = ask_of(pod)
        if not ask.is_guaranteed:
            return MAX_NODE_SCORE
        known = self._cache.known(node.name)
        if known.topology is None or not known.is_fresh:
            return 0
        return score_of(ask, known.topology, self._strategy, self._spender(state))

    def _spender(self, state: CycleState) -> Spend:
        return lambda steps: state.work.spend(self.name, steps, lambda: "which tries sets of NUMA zones")

    # -- for people --

    def explain_rejection(self, pod: PodInfo) -> list[str]:
        """Say what zones lack, on the node that comes nearest, and which nodes cannot be relied on."""
        ask, table = ask_of(pod), self._handle.cache.table
        rejected = []
        for row in table.rows().tolist():
            node = table.node(row)
            said = self._verdict(ask, node)
            if said is not Verdict.FITS:
                name = node.metadata.name
                topology, reserved = self._cache.known(name).topology, self._cache.reserved_on(name)
                rejected.append(RejectedNode(node, said, topology, reserved, self._cache.why_stale(name)))
        return list(sentences(ask, rejected))

    def lesser_requests(self, pod: PodInfo, node: NodeView) -> Mapping[str, int]:
        """Return how much of each resource the pod could request at most to fit a zone of a node."""
        topology = self._cache.known(node.name).topology
        return {} if topology is None else lesser_requests(ask_of(pod), topology, node.node)

    # -- events and hints --

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return what may help: a report, what the node has as a whole, and for some caches the pods of the node."""
        found = [
            ClusterEventWithHint(ClusterEvent(TOPOLOGIES.name, Action.ALL), self._after_report),
            ClusterEventWithHint(ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_ALLOCATABLE), self._after_node),
            ClusterEventWithHint(ClusterEvent("Pod", Action.ALL if self._cache.follows_pods else OWN), self._after_pod),
        ]
        if self._cache.watches_pods:
            found.append(ClusterEventWithHint(ClusterEvent(PODS.name, Action.ALL), self._after_watched_pod))
        return found

    def _after_report(
        self, pod: PodInfo, old: NodeResourceTopology | None, new: NodeResourceTopology | None
    ) -> QueueingHint:
        """A report helps if the pod fits its node now; so does one that is gone."""
        report = new or old
        return self._queue_if_fits(pod, "" if report is None else report.metadata.name)

    def _after_node(self, pod: PodInfo, _old: Node | None, new: Node | None) -> QueueingHint:
        return self._queue_if_fits(pod, "" if new is None else new.metadata.name)

    def _after_pod(self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> QueueingHint:
        """A pod helps by what its coming, running or going says of its node; the pod itself, where it asks for less."""
        other: Any = new or old
        if other.uid == pod.uid:
            return queue_if(old is None or new is None or ask_of(old) != ask_of(new))
        return self._queue_if_fits(pod, other.node_name)

    def _after_watched_pod(self, pod: PodInfo, old: WatchedPod | None, new: WatchedPod | None) -> QueueingHint:
        other = new or old
        return self._queue_if_fits(pod, "" if other is None else other.spec.node_name)

    def _queue_if_fits(self, pod: PodInfo, node_name: str) -> QueueingHint:
        """Queue the pod if this plugin has nothing against a node, as far as it exists."""
        table = self._handle.cache.table
        row = table.row_of.get(node_name)
        node = None if row is None else table.nodes[row]
        return queue_if(node is not None and self._verdict(ask_of(pod), node) is Verdict.FITS)


def _node_of(pod: WatchedPod) -> str:
    return pod.spec.node_name


OWN = Action.UPDATE_POD_SCALE_DOWN
"""What may happen to the rejected pod itself that helps it."""
