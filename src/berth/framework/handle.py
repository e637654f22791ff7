"""What a plugin may reach: the cluster's state to read, waiting pods to settle, features, the time."""

from collections.abc import Callable

from berth.config.feature_gates import FeatureGates
from berth.framework.waiting_pods import WaitingPods
from berth.state.cache import Cache
from berth.state.nominator import Nominator
from berth.state.objects import ObjectStore


class Handle:
    """Given to every plugin when it is made. Plugins only read `cache`, `objects` and `nominator`."""

    __slots__ = ("activate", "cache", "features", "nominator", "now", "objects", "reservation_changed", "waiting")

    def __init__(
        self,
        *,
        cache: Cache,
        objects: ObjectStore,
        nominator: Nominator,
        waiting: WaitingPods,
        features: FeatureGates,
        now: Callable[[], float],
        activate: Callable[[str], None] = lambda _uid: None,
        reservation_changed: Callable[[str], None] = lambda _plugin: None,
    ) -> None:
        self.cache = cache
        self.objects = objects
        self.nominator = nominator
        self.waiting = waiting
        self.features = features
        self.now = now
        """The time of the event or step under way, in seconds; never the wall clock."""
        self.activate = activate
        """Move a pending pod, by uid, to the active queue."""
        self.reservation_changed = reservation_changed
        """Tell memos that this plugin's own reservations have changed."""
