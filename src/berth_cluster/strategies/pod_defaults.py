"""The defaults of a pod's spec, as every pod and every pod template gets them.

All functions edit the JSON object that they are given; a value that is there is never changed.
"""

import re
from collections.abc import Iterator
from typing import Any

from berth_cluster.apimachinery.meta import Object

_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
# Volume sources whose files have a mode.
_MODED_SOURCES = ("secret", "configMap", "downwardAPI", "projected")
DEFAULT_MODE = 0o644
# [host[:port]/]path[:tag]
_IMAGE = re.compile(
    r"(?![a-f0-9]{64}$)((?=[^/]*[.:A-Z][^/]*/|localhost/)[A-Za-z0-9.\[\]:-]+/)?[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
    r"(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*(?::\w[\w.-]{0,127})?",
    re.ASCII,
).fullmatch


def default_pod_spec(spec: Object) -> None:
    """Fill in what a pod spec leaves open."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    for container in containers_of(spec):
        _default_container(container)
    for volume in objects_in(spec, "volumes"):
        _default_volume(volume)


def default_from_limits(spec: Object) -> None:
    """What a pod gets beyond the defaults of its spec, and a template does not."""
    for container in containers_of(spec):
        requests_from_limits(container.get("resources"))
        if spec.get("hostNetwork"):
            _default_host_ports(container)
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


def _default_container(container: Object) -> None:
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image")))
    for port in objects_in(container, "ports"):
        port.setdefault("protocol", "TCP")
    for variable in objects_in(container, "env"):
        field_ref = (variable.get("valueFrom") or {}).get("fieldRef")
        if isinstance(field_ref, dict):
            field_ref.setdefault("apiVersion", "v1")
    for name in _PROBES:
        if isinstance(container.get(name), dict):
            _default_probe(container[name])


def _pull_policy(image: Any) -> str:
    """Images without a tag, or tagged latest, may change and are always pulled."""
    if not isinstance(image, str) or "@" in image or not _IMAGE(image):
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def requests_from_limits(resources: Any) -> None:
    """A limit without a request is also the request."""
    if not isinstance(resources, dict) or not isinstance(resources.get("limits"), dict):
        return
    requests = resources.setdefault("requests", {})
    if isinstance(requests, dict):
        for name, quantity in resources["limits"].items():
            requests.setdefault(name, quantity)


def _default_probe(probe: Object) -> None:
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)
    http = probe.get("httpGet")
    if isinstance(http, dict):
        http.setdefault("path", "/")
        http.setdefault("scheme", "HTTP")


def _default_host_ports(container: Object) -> None:
    for port in objects_in(container, "ports"):
        if not port.get("hostPort") and "containerPort" in port:
            port["hostPort"] = port["containerPort"]


def _default_volume(volume: Object) -> None:
    if set(volume) <= {"name"}:
        volume["emptyDir"] = {}
    for source in _MODED_SOURCES:
        if isinstance(volume.get(source), dict):
            volume[source].setdefault("defaultMode", DEFAULT_MODE)
    if isinstance(volume.get("hostPath"), dict):
        volume["hostPath"].setdefault("type", "")
