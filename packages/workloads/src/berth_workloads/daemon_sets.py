"""On which nodes a DaemonSet has a pod, what its pods tolerate, and which of them a rolling update replaces.

Source: NodeShouldRunDaemonPod, podsShouldBeOnNode, rollingUpdate and AddOrUpdateDaemonPodTolerations in
pkg/controller/daemon, v1.36.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

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


class DaemonPod(NamedTuple):
    """A pod of a DaemonSet on a node."""

    name: str
    created_s: float
    is_new: bool
    """Made from the present template."""
    is_ready: bool = False
    is_available: bool = False
    is_going: bool = False
    has_ended: bool = False


def surplus_pods(pods: Sequence[DaemonPod], *, surge: bool) -> list[DaemonPod]:
    """Return those of a node's pods that are too many: all but the oldest, or with a surge one old and one new pod.

    The old one goes once it is not ready, or the new one is available.
    """
    living = sorted((pod for pod in pods if not pod.is_going and not pod.has_ended), key=lambda pod: pod.created_s)
    if not surge or len(living) < 2:
        return living[1:]
    new, old = ([pod for pod in living if pod.is_new is is_new] for is_new in (True, False))
    has_done = bool(new and old) and (not old[0].is_ready or new[0].is_available)
    return [*new[1:], *old[1:], *(old[:1] if has_done else ())]


def pods_to_replace(nodes: Iterable[Sequence[DaemonPod]], max_unavailable: int) -> list[DaemonPod]:
    """Return the old pods that a rolling update deletes now; each of `nodes` has the pods of one that should have one.

    What is not available is no loss. Of the others so many go that no more than `max_unavailable` nodes are without.
    """
    lost = 0
    at_once: list[DaemonPod] = []
    candidates: list[DaemonPod] = []
    for pods in nodes:
        new, old = _by_template(pods)
        if len(old) == 1 and not new:
            (candidates if old[0].is_available else at_once).append(old[0])
        elif len(new) != 1 or len(old) > 1 or not new[0].is_available:
            lost += 1
    return at_once + candidates[: max(0, max_unavailable - lost)]


def nodes_to_surge(nodes: Mapping[str, Sequence[DaemonPod]], max_surge: int) -> list[str]:
    """Return the nodes that get a new pod beside the old one; where the old one is not available, at once."""
    surging = 0
    at_once: list[str] = []
    candidates: list[str] = []
    for node, pods in nodes.items():
        new, old = _by_template(pods)
        if len(old) == 1 and not new:
            (candidates if old[0].is_available else at_once).append(node)
        elif len(new) > 1 or len(old) > 1 or (new and old and not new[0].is_available):
            surging += 1
    return at_once + candidates[: max(0, max_surge - surging)]


def _by_template(pods: Iterable[DaemonPod]) -> tuple[list[DaemonPod], list[DaemonPod]]:
    staying = [pod for pod in pods if not pod.is_going]
    return [pod for pod in staying if pod.is_new], [pod for pod in staying if not pod.is_new]
