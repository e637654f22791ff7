"""Making and deleting pods for a workload, with the events that say so on it. Used by the controllers of workloads."""

from collections.abc import Iterable

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.meta import Object
from berth_cluster.controllers.client import Client


class PodControl:
    """Creates and deletes the pods of workloads of one kind; `component` says so in events."""

    __slots__ = ("_client", "_component", "_kind")

    def __init__(self, client: Client, component: str, kind: str) -> None:
        self._client = client
        self._component = component
        self._kind = kind

    def create(self, owner: Object, pods: Iterable[Object], now_s: float) -> None:
        """Create pods until one is refused, which is raised."""
        events = self._client.events
        for pod in pods:
            try:
                created = self._client.create("Pod", pod)
            except StoreError as error:
                events.warning(self._component, self._kind, owner, "FailedCreate", f"Error creating: {error}", now_s)
                raise
            message = f"Created pod: {created['metadata']['name']}"
            events.normal(self._component, self._kind, owner, "SuccessfulCreate", message, now_s)

    def delete(self, owner: Object, pods: Iterable[Object], now_s: float) -> None:
        """Delete pods."""
        for pod in pods:
            self._client.delete("Pod", pod)
            message = f"Deleted pod: {pod['metadata']['name']}"
            self._client.events.normal(self._component, self._kind, owner, "SuccessfulDelete", message, now_s)
