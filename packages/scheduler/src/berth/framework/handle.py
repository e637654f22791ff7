"""What a plugin may reach: the cluster's state to read, waiting pods to settle, features, the time."""

import copy
import random
import time
from collections.abc import Callable
from typing import Protocol

from berth.api.custom import CustomResource
from berth.api.web import WebResource
from berth.config.feature_gates import FeatureGates
from berth.framework.custom_resources import CustomObjects, CustomResources, NodeOf, WebDocument
from berth.framework.effects import EmitEvent
from berth.framework.evictions import Evictions
from berth.framework.observations import Observation
from berth.framework.preemption import Preemption, VictimBasis, VictimCost, VictimRules
from berth.framework.readers import (
    CacheReader,
    EvictionReader,
    NominationReader,
    ObjectReader,
    PodGroupReader,
    WaitingPodsView,
)
from berth.framework.waiting_pods import WaitingPods
from berth.framework.what_if import ProfileView
from berth.state.cache import Cache
from berth.state.node_view import NodeView
from berth.state.nominator import Nominator
from berth.state.objects import ObjectStore
from berth.state.pod_groups import PodGroups


class Follow(Protocol):
    """Follows a resource."""

    def __call__(self, resource: CustomResource, node_of: NodeOf | None = None) -> CustomObjects: ...


class Handle:
    """Given to every plugin when it is made. What it gives out of the state is typed to be read only."""

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
        *,
        cache: Cache,
        objects: ObjectStore,
        nominator: Nominator,
        waiting: WaitingPods,
        features: FeatureGates,
        now: Callable[[], float],
        pod_groups: PodGroups | None = None,
        evictions: Evictions | None = None,
        activate: Callable[[str], None] = lambda _uid: None,
        wake_after: Callable[[str, float], None] = lambda _uid, _seconds: None,
        reservation_changed: Callable[[str], None] = lambda _plugin: None,
        node_changed: Callable[[str], None] = lambda _node_name: None,
        rng: random.Random | None = None,
        tell: Callable[[EmitEvent], None] = lambda _event: None,
        observe: Callable[[Observation], None] = lambda _observation: None,
        follow: "Follow | None" = None,
        poll: Callable[[WebResource], WebDocument] | None = None,
        wall_clock: Callable[[], float] = time.time,
        preempting: "Preempting | None" = None,
    ) -> None:
        self.cache: CacheReader = cache
        self.objects: ObjectReader = objects
        self.nominator: NominationReader = nominator
        self.waiting: WaitingPodsView = waiting
        self.features = features
        self.now = now
        """The time of the event or step under way, in seconds; never the wall clock."""
        self.activate = activate
        """Move a pending pod, by uid, to the active queue."""
        self.wake_after = wake_after
        """Have a pod, by uid, tried again after so many seconds, if it is still pending then; the shortest time counts.

        For what no event tells of: that a time has come which the pod was rejected for.
        """
        self.reservation_changed = reservation_changed
        """Tell memos that this plugin's own reservations have changed."""
        self.node_changed = node_changed
        """Tell memos that answers about one node have changed, by its name: as if a pod had come there or left."""
        self.tell = tell
        """Send out an Event, without waiting for it."""
        self.observe = observe
        """Tell metrics, and the other instruments of the core, what only the plugin sees."""
        self.follow: Follow = CustomResources(objects).declare if follow is None else follow
        """Ask for the objects of a `CustomResource`; to be called when the plugin is made. With a function that says
        which node an object tells of, a change makes what is kept of that node stale, as `node_changed` does."""
        self.poll = CustomResources(objects).poll if poll is None else poll
        """Ask for a document from elsewhere than the API server, a `WebResource`; to be called when it is made."""
        self.wall_clock = wall_clock
        """Seconds since the epoch, for timestamps of objects and nothing else; a replay gives what was read before."""
        self.rng = rng if rng is not None else random.Random(0)
        """The source of randomness; the same seed gives the same decisions."""
        self.pod_groups: PodGroupReader = PodGroups(cache) if pod_groups is None else pod_groups
        """The members of each pod group."""
        self.evictions: EvictionReader = Evictions(cache) if evictions is None else evictions
        """Which pods are being evicted for whom."""
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

        The numbers say on how many nodes it is tried out, as the args of DefaultPreemption do, and `cost` which of the
        nodes that can be freed is, where that is not DefaultPreemption's choice. With `basis`, nodes that were found to
        have no potential victims are not asked about again until something changes; with `refusal_basis` as well, no
        node is.
        """
        if self._preempting is None:
            raise LookupError("this plugin was made where nobody can be preempted")
        return self._preempting(
            self, rules, min_candidate_nodes_percentage, min_candidate_nodes_absolute, cost, basis, refusal_basis
        )

    def that_changes_nothing(self) -> "Handle":
        """Return the handle of plugins whose profile only watches: what they do by it has no effect.

        Their randomness is their own, so that the decisions that count are those that there would be without them.
        """
        own = copy.copy(self)
        own.activate = lambda _uid: None
        own.wake_after = lambda _uid, _seconds: None
        own.tell = lambda _event: None
        own.observe = lambda _observation: None
        own.waiting = WaitingPods()
        own.rng = random.Random(0)
        return own

    def within(self, profile: Callable[[], ProfileView]) -> "Handle":
        """Return the handle that the plugins of one profile get."""
        own = copy.copy(self)
        own.profile = profile
        return own


Preempting = Callable[
    [Handle, VictimRules, int, int, VictimCost | None, VictimBasis | None, VictimBasis | None], Preemption
]
"""Makes preemption by rules: the core's own, since it is above what plugins import."""


def _no_profile() -> ProfileView:
    raise LookupError("this plugin was made outside any profile")
