"""Which pods belong with a pod: the selector of default constraints, from Services and the owning controller.

Source: pkg/scheduler/framework/plugins/helper (DefaultSelector), v1.36.
"""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from berth.api.meta import OwnerReference
from berth.api.node import Service
from berth.api.selectors import Requirement, Selector, SelectorError, compile_selector, selector_from_map
from berth.framework.readers import ObjectReader
from berth.state.pod_info import PodInfo

KINDS = ("Service", "ReplicationController", "ReplicaSet", "StatefulSet")
"""The objects that default selectors are made from."""

_CONTROLLERS = {
    ("v1", "ReplicationController"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
}


class DefaultSelectors:
    """Selectors by pod; Services are sorted by namespace once after each change."""

    __slots__ = ("_by_namespace", "_objects", "_version")

    def __init__(self, objects: ObjectReader) -> None:
        self._objects = objects
        self._version = -1
        self._by_namespace: dict[str, list[Selector]] = {}

    def selector_of(self, pod: PodInfo) -> Selector | None:
        """Return the selector of the pods that belong with `pod`, or None where nothing claims it.

        It is the same object as long as nothing has changed that it is made from.
        """
        services, controllers = self._services(pod.namespace), self._controllers(pod)
        known: Any = pod.fragments.get(self)
        if known is not None and known[0] == self._version and known[1] == controllers:
            return cast("Selector | None", known[2])
        requirements = {r for selector in services if selector.matches(pod.labels) for r in selector[0]}
        requirements.update(self._of_controllers(pod))
        found = Selector(tuple(sorted(requirements))) if requirements else None
        pod.fragments[self] = (self._version, controllers, found)
        return found

    def version(self, pod: PodInfo) -> int:
        """Return a number that grows with every change of what the pod's selector is made from."""
        owner = controller_of(pod)
        return self._objects.version("Service") + (0 if owner is None else self._objects.version(owner.kind))

    def _services(self, namespace: str) -> list[Selector]:
        version = self._objects.version("Service")
        if version != self._version:
            self._version = version
            self._by_namespace = {}
            for service in self._objects.list("Service"):
                self._sort_in(service)
        return self._by_namespace.get(namespace, [])

    def _sort_in(self, service: Service) -> None:
        selector = selector_from_map(service.spec.selector)
        self._by_namespace.setdefault(service.metadata.namespace, []).append(selector)

    def _controllers(self, pod: PodInfo) -> Any:
        """Return what `_of_controllers` is made from: the selector of the owning controller, as its object has it."""
        owner = controller_of(pod)
        if owner is None or (owner.api_version, owner.kind) not in _CONTROLLERS:
            return None
        found = self._objects.get(owner.kind, owner.name, pod.namespace)
        return None if found is None else found.spec.selector

    def _of_controllers(self, pod: PodInfo) -> Iterable[Requirement]:
        """Return what the owning controller requires of its pods."""
        selector = self._controllers(pod)
        if isinstance(selector, Mapping):  # that of a ReplicationController
            return selector_from_map(selector).requirements
        try:
            return compile_selector(selector).requirements if selector is not None else ()
        except SelectorError:
            return ()  # the API server refuses such selectors; upstream passes over them too


def controller_of(pod: PodInfo) -> OwnerReference | None:
    """Return the owner that controls a pod, or None."""
    return next((owner for owner in pod.metadata.owner_references if owner.controller), None)
