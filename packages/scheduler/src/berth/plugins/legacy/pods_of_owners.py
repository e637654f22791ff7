"""Which pods belong with a pod, as v1.20 saw it: by the selectors of all that select it, whatever owns it.

Used by SelectorSpread, ServiceAffinity and the default constraints of PodTopologySpread. Services,
ReplicationControllers, ReplicaSets and StatefulSets of the pod's namespace count. Source: release-1.20,
pkg/scheduler/framework/plugins/helper/spread.go.
"""

from collections.abc import Iterator, Mapping

from berth.api.node import Service
from berth.api.selectors import EVERYTHING, Requirement, Selector, SelectorError, compile_selector, selector_from_map
from berth.framework.readers import ObjectReader
from berth.plugins.pod_topology_spread.defaults import KINDS, DefaultSelectors
from berth.state.pod_info import PodInfo


def services_of(objects: ObjectReader, pod: PodInfo) -> Iterator[Service]:
    """Return the services that select a pod; one without a selector selects nothing."""
    for service in objects.list("Service", pod.namespace):
        selector: Mapping[str, str] = service.spec.selector
        if selector and all(pod.labels.get(key) == value for key, value in selector.items()):
            yield service


class MatchingSelectors(DefaultSelectors):
    """Selectors by pod: of services, and of every controller that selects the pod."""

    __slots__ = ()

    def _controllers(self, pod: PodInfo) -> tuple[int, ...]:
        return tuple([self._objects.version(kind) for kind in KINDS])

    def _of_controllers(self, pod: PodInfo) -> Iterator[Requirement]:
        for controller in self._objects.list("ReplicationController", pod.namespace):
            if controller.spec.selector:
                yield from _if_selects(selector_from_map(controller.spec.selector), pod)
        for kind in ("ReplicaSet", "StatefulSet"):
            for controller in self._objects.list(kind, pod.namespace):
                try:
                    selector = compile_selector(controller.spec.selector)
                except SelectorError:
                    continue  # the API server refuses such selectors; upstream passes over them too
                if selector != EVERYTHING:
                    yield from _if_selects(selector, pod)


def _if_selects(selector: Selector, pod: PodInfo) -> tuple[Requirement, ...]:
    return selector.requirements if selector.matches(pod.labels) else ()
