"""On which nodes a DaemonSet has a pod, and what its pods tolerate.

Source: NodeShouldRunDaemonPod and AddOrUpdateDaemonPodTolerations in pkg/controller/daemon, v1.36.
"""

from collections.abc import Iterable

from berth.api.taints import NO_EXECUTE, NO_SCHEDULE, UNSCHEDULABLE_KEY, Taint, Toleration, untolerated_taint

_TOLERATED = (
    ("node.kubernetes.io/not-ready", NO_EXECUTE),
    ("node.kubernetes.io/unreachable", NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", NO_SCHEDULE),
    (UNSCHEDULABLE_KEY, NO_SCHEDULE),
)
_OF_HOST_NETWORK = ("node.kubernetes.io/network-unavailable", NO_SCHEDULE)


def with_daemon_tolerations(given: Iterable[Toleration], *, host_network: bool) -> tuple[Toleration, ...]:
    """Return the tolerations of a DaemonSet's pod: its own, and those that the controller adds."""
    added = (*_TOLERATED, _OF_HOST_NETWORK) if host_network else _TOLERATED
    # Admission has given it two that end after five minutes; the controller's come first, and have no end.
    own = tuple(each for each in given if each.toleration_seconds is None or (each.key, each.effect) not in added)
    of_controller = (Toleration(key=key, operator="Exists", effect=effect) for key, effect in added)
    return (*own, *(each for each in of_controller if each not in own))


def should_run(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...], *, matches: bool) -> bool:
    """Say whether a node gets a pod; `matches` is whether name, selector and affinity do."""
    return matches and untolerated_taint(taints, tolerations, (NO_SCHEDULE, NO_EXECUTE)) is None


def should_continue(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...], *, matches: bool) -> bool:
    """Say whether a pod that is on a node, or waits for it, may stay: NoSchedule keeps only new ones away."""
    return matches and untolerated_taint(taints, tolerations, (NO_EXECUTE,)) is None
