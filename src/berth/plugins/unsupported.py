"""Events of plugins whose work this release does not do: they are registered, and wake nobody."""

from collections.abc import Sequence
from typing import Any

from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint, QueueingHint
from berth.state.pod_info import PodInfo


def events(*registered: tuple[str, Action]) -> Sequence[ClusterEventWithHint]:
    """Return registrations of these kinds and actions; none of them helps a pod."""
    return tuple(ClusterEventWithHint(ClusterEvent(kind, action), never) for kind, action in registered)


def never(_pod: PodInfo, _old: Any, _new: Any) -> QueueingHint:
    """Nothing that happens in the cluster changes what this release can do."""
    return QueueingHint.SKIP
