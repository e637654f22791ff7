"""Which changes may let a pod through that required terms rejected.

What affinity rejected may fit once a matching pod runs or, if the pod matches its own terms and may be the first of
its kind, once the last matching pod has gone. What anti-affinity of either side rejected may fit once a pod has gone.
Both may fit on nodes that come or move to another domain.
"""

from collections.abc import Sequence

from berth.api.node import Namespace, Node
from berth.api.selectors import SelectorError
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint, QueueingHint
from berth.framework.readers import PodIndexReader
from berth.state.pod_index import REQUIRED_ANTI_AFFINITY, TermGroup
from berth.state.pod_info import AffinityTerm, PodInfo

POD_EVENT = ClusterEvent("Pod", Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE)
NODE_EVENT = ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_LABEL | Action.DELETE)
NAMESPACE_EVENT = ClusterEvent("Namespace", Action.ADD | Action.UPDATE | Action.DELETE)


class AffinityHints:
    """The events of one profile's plugin, which look at the pods that run now."""

    __slots__ = ("_index",)

    def __init__(self, index: PodIndexReader) -> None:
        self._index = index

    def events(self) -> Sequence[ClusterEventWithHint]:
        """Return what to register. Namespaces are among it because their labels decide which pods terms match."""
        return (
            ClusterEventWithHint(POD_EVENT, self.after_pod_change),
            ClusterEventWithHint(NODE_EVENT, self.after_node_change),
            ClusterEventWithHint(NAMESPACE_EVENT, self.after_namespace_change),
        )

    def after_pod_change(self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> QueueingHint:
        """Queue where a running pod starts to match affinity, or stops to match anti-affinity or to forbid the pod."""
        changed = new or old
        if changed is None:
            return QueueingHint.SKIP
        if changed.uid == pod.uid:
            return _hint(old is None or new is None or old.labels != new.labels)
        if not changed.node_name:
            return QueueingHint.SKIP
        try:
            return _hint(self._may_admit(pod, old, new))
        except SelectorError:
            return QueueingHint.QUEUE

    def after_node_change(self, pod: PodInfo, old: Node | None, new: Node | None) -> QueueingHint:
        """Queue where a node comes that has what affinity needs, or one changes its domain or takes pods out of it."""
        try:
            needed = {term.topology_key for term in pod.required_affinity_terms}
            watched = needed | {term.topology_key for term in self._repelling(pod)}
        except SelectorError:
            return QueueingHint.QUEUE
        if new is None:  # the pods that still run there are no longer in any domain
            starts = TermGroup(pod.required_affinity_terms).selects(pod, self._index.namespaces)
            freed = watched if starts else {term.topology_key for term in self._repelling(pod)}
            return _hint(old is not None and any(key in old.metadata.labels for key in freed))
        if old is None:
            return _hint(all(key in new.metadata.labels for key in needed))
        return _hint(any(old.metadata.labels.get(key) != new.metadata.labels.get(key) for key in watched))

    def after_namespace_change(self, pod: PodInfo, old: Namespace | None, new: Namespace | None) -> QueueingHint:
        """Queue where the pod's terms choose namespaces by label, or its own namespace is the one that changed."""
        changed = new or old
        try:
            terms = (*pod.required_affinity_terms, *pod.required_anti_affinity_terms)
        except SelectorError:
            return QueueingHint.QUEUE
        by_label = any(not term.namespace_selector.nothing for term in terms)
        return _hint(by_label or (changed is not None and changed.metadata.name == pod.namespace))

    def _may_admit(self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> bool:
        namespaces = self._index.namespaces
        wanted = TermGroup(pod.required_affinity_terms)
        if wanted.terms:
            was, now = (other is not None and wanted.selects(other, namespaces) for other in (old, new))
            # One match less helps only a pod that may then be the first of its kind.
            if (now and not was) or (was and not now and wanted.selects(pod, namespaces)):
                return True
        if old is None:
            return False
        for term in pod.required_anti_affinity_terms:
            repelled = TermGroup((term,))
            if repelled.selects(old, namespaces) and (new is None or not repelled.selects(new, namespaces)):
                return True
        labels = self._index.namespace_labels(pod.namespace)
        return new is None and any(term.matches(pod, labels) for term in old.required_anti_affinity_terms)

    def _repelling(self, pod: PodInfo) -> tuple[AffinityTerm, ...]:
        carried = self._index.matching_terms(REQUIRED_ANTI_AFFINITY, pod)
        return (*pod.required_anti_affinity_terms, *(found.term for found in carried))


def _hint(may_help: bool) -> QueueingHint:
    return QueueingHint.QUEUE if may_help else QueueingHint.SKIP
