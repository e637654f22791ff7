"""What a plugin has access to: the cluster's state to read, waiting pods to settle, features, the time."""

import copy
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from berth.config.feature_gates import FeatureGates
from berth.framework.custom_resources import CustomResources
from berth.framework.effects import EmitEvent
from berth.framework.evictions import Evictions
from berth.framework.observations import Observation
from berth.framework.preemption import Preemption, VictimBasis, VictimCost, VictimRules
from berth.framework.profile_view import ProfileView
from berth.framework.readers import (
    CacheReader,
    EvictionReader,
    NominationReader,
    ObjectReader,
    PodGroupReader,
    WaitingPodsView,
)
from berth.framework.waiting_pods import WaitingPods
from berth.state.cache import Cache
from berth.state.node_view import NodeView
from berth.state.nominator import Nominator
from berth.state.objects import ObjectStore
from berth.state.pod_groups import PodGroups


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """What a core knows of its cluster, and what it intends there; plugins read it by their handle."""

    cache: Cache
    objects: ObjectStore
    nominator: Nominator
    waiting: WaitingPods
    pod_groups: PodGroups
    """The members of each pod group."""
    evictions: Evictions
    """Which pods are being evicted for whom."""

    @classmethod
    def of(
        cls,
        cache: Cache,
        objects: ObjectStore,
        *,
        nominator: Nominator | None = None,
        waiting: WaitingPods | None = None,
    ) -> "ClusterState":
        """Return the state around these nodes, pods and objects; nothing else is known of it yet unless given."""
        return cls(
            cache=cache,
            objects=objects,
            nominator=Nominator() if nominator is None else nominator,
            waiting=WaitingPods() if waiting is None else waiting,
            pod_groups=PodGroups(cache),
            evictions=Evictions(cache),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginActions:
    """What a core does for plugins that call their handle, which says what each of these is for; by default nothing."""

    activate: Callable[[str], None] = lambda _uid: None
    wake_after: Callable[[str, float], None] = lambda _uid, _seconds: None
    reservation_changed: Callable[[str], None] = lambda _plugin: None
    node_changed: Callable[[str], None] = lambda _node_name: None
    tell: Callable[[EmitEvent], None] = lambda _event: None
    observe: Callable[[Observation], None] = lambda _observation: None


class Handle:
    """Given to every plugin when it is made. The parts of the state that it exposes are typed as read-only."""

    __slots__ = (
        "_preempting",
        "activate",
        "cache",
        "evictions",
        "features",
        "follow",
        "node_changed",
        "nominator",
        "now",
        "objects",
        "observe",
        "pod_groups",
        "poll",
        "profile",
        "reservation_changed",
        "rng",
        "tell",
        "waiting",
        "wake_after",
        "wall_clock",
    )

    def __init__(
        self,
        state: ClusterState,
        features: FeatureGates,
        now: Callable[[], float],
        *,
        actions: PluginActions = PluginActions(),
        resources: CustomResources | None = None,
        rng: random.Random | None = None,
        wall_clock: Callable[[], float] = time.time,
        preempting: "Preempting | None" = None,
    ) -> None:
        """Without `resources`, what a plugin follows is read from the objects of `state`, and nobody is told of it."""
        self.cache: CacheReader = state.cache
        self.objects: ObjectReader = state.objects
        self.nominator: NominationReader = state.nominator
        self.waiting: WaitingPodsView = state.waiting
        self.pod_groups: PodGroupReader = state.pod_groups
        """The members of each pod group."""
        self.evictions: EvictionReader = state.evictions
        """Which pods are being evicted for whom."""
        self.features = features
        self.now = now
        """The time of the event or step under way, in seconds; never the wall clock."""
        self.wall_clock = wall_clock
        """Seconds since the epoch, only for comparison with timestamps of objects; a replay gives the recorded
        readings.
        """
        self.rng = rng if rng is not None else random.Random(0)
        """The source of randomness; the same seed gives the same decisions."""
        self.activate = actions.activate
        """Move a pending pod, by uid, to the active queue."""
        self.wake_after = actions.wake_after
        """Have a pod, by uid, tried again after so many seconds, if it is still pending then; the shortest time counts.

        For what no event tells of: that a time has come which the pod was rejected for.
        """
        self.reservation_changed = actions.reservation_changed
        """Note that this plugin's own reservations have changed."""
        self.node_changed = actions.node_changed
        """Note that answers about one node have changed, by its name: as if a pod had come there or left."""
        self.tell = actions.tell
        """Send out an Event, without waiting for it."""
        self.observe = actions.observe
        """Tell metrics, and the other instruments of the core, what only the plugin sees."""
        if resources is None:
            resources = CustomResources(state.objects)
        self.follow = resources.declare
        """Ask for the objects of a `CustomResource`; to be called when the plugin is made. With a function that says
        which node an object tells of, a change makes what is kept of that node stale, as `node_changed` does."""
        self.poll = resources.poll
        """Ask for a document from elsewhere than the API server, a `WebResource`; to be called when it is made."""
        self._preempting = preempting
        self.profile: Callable[[], ProfileView] = _no_profile
        """The profile that the plugin belongs to, for what-ifs; not to be called before all plugins are made."""

    def nodes(self) -> list[NodeView]:
        """Return all nodes with their pods, as they are now."""
        table = self.cache.table
        return [table.view(row) for row in table.rows().tolist()]

    def preemption(
        self,
        rules: VictimRules,
        min_candidate_nodes_percentage: int = 10,
        min_candidate_nodes_absolute: int = 100,
        *,
        cost: VictimCost | None = None,
        basis: VictimBasis | None = None,
        refusal_basis: VictimBasis | None = None,
    ) -> Preemption:
        """Return preemption by a plugin's own rules, for its `post_filter`; to be called when the plugin is made.

        The numbers say on how many nodes it is tried, like the args of DefaultPreemption, and `cost` decides which of
        the possible nodes is freed, if that is not DefaultPreemption's choice. With `basis`, nodes found to have no
        potential victims are not asked about again until something changes; with `refusal_basis` as well, no node is.
        """
        if self._preempting is None:
            raise LookupError("this plugin was made where nobody can be preempted")
        return self._preempting(
            self, rules, min_candidate_nodes_percentage, min_candidate_nodes_absolute, cost, basis, refusal_basis
        )

    def that_changes_nothing(self) -> "Handle":
        """Return the handle of plugins whose profile only watches: what they do through it has no effect.

        They have their own randomness, so that the decisions that count are the same as without them.
        """
        own = copy.copy(self)
        nothing = PluginActions()
        own.activate, own.wake_after = nothing.activate, nothing.wake_after
        own.tell, own.observe = nothing.tell, nothing.observe
        own.waiting = WaitingPods()
        own.rng = random.Random(0)
        return own

    def within(self, profile: Callable[[], ProfileView]) -> "Handle":
        """Return the handle for the plugins of one profile."""
        own = copy.copy(self)
        own.profile = profile
        return own


Preempting = Callable[
    [Handle, VictimRules, int, int, VictimCost | None, VictimBasis | None, VictimBasis | None], Preemption
]
"""Makes preemption by rules; injected by the core, since it lives above what plugins import."""


def _no_profile() -> ProfileView:
    raise LookupError("this plugin was made outside any profile")
