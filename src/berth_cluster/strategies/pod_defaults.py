"""What a pod gets beyond the defaults of its types (`defaults`), and the containers of a pod's spec."""

from collections.abc import Iterator
from typing import Any

from berth_cluster.apimachinery.meta import Object

_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")


def default_from_limits(spec: Object) -> None:
    """What a pod gets beyond the defaults of its spec, and a template does not."""
    for container in containers_of(spec):
        requests_from_limits(container.get("resources"))
        for port in objects_in(container, "ports") if spec.get("hostNetwork") else ():
            if not port.get("hostPort") and "containerPort" in port:
                port["hostPort"] = port["containerPort"]
    requests_from_limits(spec.get("resources"))


def containers_of(spec: Object) -> Iterator[Object]:
    """All containers of a pod spec, of whatever sort."""
    for name in _CONTAINER_LISTS:
        yield from objects_in(spec, name)


def objects_in(parent: Object, field: str) -> Iterator[Object]:
    """The entries of a list field that are objects; what is not is left to validation."""
    entries: Any = parent.get(field)
    if isinstance(entries, list):
        yield from (entry for entry in entries if isinstance(entry, dict))


def requests_from_limits(resources: Any) -> None:
    """A limit without a request is also the request."""
    if not isinstance(resources, dict) or not isinstance(resources.get("limits"), dict):
        return
    requests = resources.setdefault("requests", {})
    if isinstance(requests, dict):
        for name, quantity in resources["limits"].items():
            requests.setdefault(name, quantity)
