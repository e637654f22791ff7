"""Which cluster events may make devices available to a rejected pod.

Events go in, Queue or Skip comes out. Registered are upstream's events (v1.36) and, beyond them, deleted claims,
whose devices are then free, and deleted pods that may have held devices of which nothing was written.
"""

from collections.abc import Sequence
from typing import Any

from berth.api.dra import DeviceTaintRule, ResourceClaim
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint, QueueingHint
from berth.plugins.dra.claims import ClaimsMissingError, claims_of
from berth.plugins.dra.ledger import CLAIM, Ledger
from berth.plugins.resources.devices import KIND as DEVICE_CLASS
from berth.state.pod_info import PodInfo


class ClaimHints:
    """The plugin's events."""

    __slots__ = ("_has_rules", "_ledger")

    def __init__(self, ledger: Ledger, has_rules: bool = False) -> None:
        self._ledger = ledger
        self._has_rules = has_rules

    def registrations(self) -> Sequence[ClusterEventWithHint]:
        """Return the events with their hints."""
        node = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE
        changed = Action.ADD | Action.UPDATE
        # Upstream treats a changed rule as changed slices. A new rule can only take devices away, so it helps no pod.
        rules = ClusterEventWithHint(ClusterEvent("DeviceTaintRule", Action.UPDATE | Action.DELETE), self.after_rule)
        return (
            *((rules,) if self._has_rules else ()),
            ClusterEventWithHint(ClusterEvent("Node", node)),
            ClusterEventWithHint(ClusterEvent(CLAIM, changed | Action.DELETE), self.after_claim),
            ClusterEventWithHint(ClusterEvent("Pod", Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM), self.after_pod),
            ClusterEventWithHint(ClusterEvent("Pod", Action.DELETE), self.after_pod_gone),
            ClusterEventWithHint(ClusterEvent(DEVICE_CLASS, changed)),
            ClusterEventWithHint(ClusterEvent("ResourceSlice", changed | Action.DELETE)),
        )

    def after_claim(self, pod: PodInfo, old: ResourceClaim | None, new: ResourceClaim | None) -> QueueingHint:
        """Queue where devices were freed, or where a claim of the pod's own was made or changed its status."""
        if not self._has_all_claims(pod):
            return QueueingHint.SKIP
        freed = old is not None and old.status.allocation is not None
        if freed and (new is None or new.status.allocation is None):
            return QueueingHint.QUEUE
        if new is None or not self._uses(pod, new):
            return QueueingHint.SKIP
        if old is not None and old.status == new.status:
            return QueueingHint.SKIP
        return QueueingHint.QUEUE

    def after_pod(self, pod: PodInfo, old: Any, new: PodInfo) -> QueueingHint:
        """Queue where the pod itself now has all its claims."""
        return _queue_if(new.uid == pod.uid and self._has_all_claims(new))

    def after_pod_gone(self, pod: PodInfo, old: PodInfo | None, new: Any) -> QueueingHint:
        """Queue where a deleted pod's allocation may never have been written: what it had reserved is free again."""
        if old is None or not self._has_all_claims(pod):
            return QueueingHint.SKIP
        return _queue_if(bool(old.spec.resource_claims) or any("/" in resource for resource in old.requests))

    def after_rule(self, pod: PodInfo, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> QueueingHint:
        """Queue where a rule was deleted or its spec changed; its status does not matter."""
        return _queue_if(old is None or new is None or old.spec != new.spec)

    def _has_all_claims(self, pod: PodInfo) -> bool:
        try:
            claims_of(pod, self._ledger)
        except ClaimsMissingError:
            return False
        return True

    def _uses(self, pod: PodInfo, claim: ResourceClaim) -> bool:
        if claim.metadata.namespace != pod.namespace:
            return False
        if any(owner.uid == pod.uid for owner in claim.metadata.owner_references):
            return True
        return any(used.metadata.uid == claim.metadata.uid for used in claims_of(pod, self._ledger))


def _queue_if(worth_it: bool) -> QueueingHint:
    return QueueingHint.QUEUE if worth_it else QueueingHint.SKIP
