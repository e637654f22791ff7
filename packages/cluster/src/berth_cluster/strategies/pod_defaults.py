"""What a pod gets beyond the defaults of its types (`defaults`)."""

from typing import Any

from berth_cluster.apimachinery.meta import Object
from berth_workloads.pods import containers_of, objects_in


def default_from_limits(spec: Object) -> None:
    """What a pod gets beyond the defaults of its spec, and a template does not."""
    for container in containers_of(spec):
        requests_from_limits(container.get("resources"))
        for port in objects_in(container, "ports") if spec.get("hostNetwork") else ():
            if not port.get("hostPort") and "containerPort" in port:
                port["hostPort"] = port["containerPort"]
    requests_from_limits(spec.get("resources"))


def requests_from_limits(resources: Any) -> None:
    """A limit without a request is also the request."""
    if not isinstance(resources, dict) or not isinstance(resources.get("limits"), dict):
        return
    requests = resources.setdefault("requests", {})
    if isinstance(requests, dict):
        for name, quantity in resources["limits"].items():
            requests.setdefault(name, quantity)
