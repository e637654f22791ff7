"""Holds new pods and claims to the LimitRanges of their namespace, and gives containers the defaults that they have.

Source: the admission plugin LimitRanger, v1.36. It looks at the containers of a pod, at all of them together, and at
what a claim asks for; an update is not looked at.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from berth.api.quantity import parse
from berth_cluster.apimachinery.errors import forbidden
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.quantities import canonical
from berth_cluster.apimachinery.resource_types import BY_KEY
from berth_cluster.strategies.base import ClusterView

ANNOTATION = "kubernetes.io/limit-ranger"
_LIMIT_RANGES = BY_KEY["", "limitranges"]
_SECTIONS = (("requests", "defaultRequest"), ("limits", "default"))

Amounts = dict[str, Any]


def limit_claim(claim: Object, view: ClusterView) -> None:
    """Refuse a claim that asks for too little or too much."""
    asked = ((claim["spec"].get("resources") or {}).get("requests")) or {}
    said: list[str] = []
    for limit in _limits(claim, view, "PersistentVolumeClaim"):
        for section, is_out in (("min", Fraction.__lt__), ("max", Fraction.__gt__)):
            for name, bound in (limit.get(section) or {}).items():
                what = f"{section}imum {name} usage per PersistentVolumeClaim is {bound}"
                if name not in asked:
                    said.append(f"{what}.  No request is specified")
                elif is_out(parse(asked[name]), parse(bound)):
                    said.append(f"{what}, but request is {asked[name]}")
    _refuse(claim, "persistentvolumeclaims", said)


def default_limits(pod: Object, view: ClusterView) -> None:
    """Give the containers of a pod what they leave open."""
    limits = list(_limits(pod, view, "Container"))
    if limits:
        _set_defaults(pod, _containers(pod), limits)


def limit_pod(pod: Object, view: ClusterView) -> None:
    """Refuse a pod that asks for too little or too much."""
    said: list[str] = []
    for limit in _limits(pod, view, "Container"):
        for container in _containers(pod):
            resources = container.get("resources") or {}
            said += _outside(limit, "Container", resources.get("requests") or {}, resources.get("limits") or {})
    for limit in _limits(pod, view, "Pod"):
        said += _outside(limit, "Pod", _sum(pod, "requests"), _sum(pod, "limits"))
    _refuse(pod, "pods", said)


def _containers(pod: Object) -> list[Object]:
    return [*(pod["spec"].get("containers") or []), *(pod["spec"].get("initContainers") or [])]


def _limits(obj: Object, view: ClusterView, kind: str) -> Iterator[Object]:
    for each in view.objects(_LIMIT_RANGES, obj["metadata"].get("namespace", "")):
        yield from (limit for limit in each["spec"].get("limits") or [] if limit.get("type") == kind)


def _refuse(obj: Object, plural: str, said: list[str]) -> None:
    if said:
        why = said[0] if len(said) == 1 else f"[{', '.join(said)}]"
        raise forbidden(plural, "", obj["metadata"]["name"], why)


def _outside(limit: Object, kind: str, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, bound in (limit.get("min") or {}).items():
        what = f"minimum {name} usage per {kind} is {bound}"
        if name not in requests:
            yield f"{what}.  No request is specified"
        for amounts, word in ((requests, "request"), (limits, "limit")):
            if name in amounts and parse(amounts[name]) < parse(bound):
                yield f"{what}, but {word} is {amounts[name]}"
                break
    for name, bound in (limit.get("max") or {}).items():
        what = f"maximum {name} usage per {kind} is {bound}"
        if name not in limits:
            yield f"{what}.  No limit is specified"
        for amounts, word in ((limits, "limit"), (requests, "request")):
            if name in amounts and parse(amounts[name]) > parse(bound):
                yield f"{what}, but {word} is {amounts[name]}"
                break
    for name, bound in (limit.get("maxLimitRequestRatio") or {}).items():
        what = f"{name} max limit to request ratio per {kind} is {bound}, but"
        if not parse(requests.get(name, "0")):
            yield f"{what} no request is specified or request is 0"
        elif name not in limits:
            yield f"{what} no limit is specified or limit is 0"
        elif parse(limits[name]) / parse(requests[name]) > parse(bound):
            yield f"{what} provided ratio is {float(parse(limits[name]) / parse(requests[name])):f}"


def _sum(pod: Object, section: str) -> Amounts:
    total: dict[str, Fraction] = {}
    for container in pod["spec"].get("containers") or []:
        for name, amount in ((container.get("resources") or {}).get(section) or {}).items():
            total[name] = total.get(name, Fraction(0)) + parse(amount)
    return {name: canonical(f"{int(amount * 1000)}m") for name, amount in total.items()}


def _set_defaults(pod: Object, containers: list[Object], limits: list[Object]) -> None:
    said = []
    for container in containers:
        resources = container.setdefault("resources", {})
        for section, default in _SECTIONS:
            given = [name for limit in limits for name in limit.get(default) or {}]
            missing = [name for name in dict.fromkeys(given) if name not in (resources.get(section) or {})]
            for name in missing:
                amount = next(limit[default][name] for limit in limits if name in (limit.get(default) or {}))
                resources.setdefault(section, {})[name] = amount
            if missing:
                said.append(f"{', '.join(sorted(missing))} {section[:-1]} for container {container.get('name')}")
    if said:
        pod["metadata"].setdefault("annotations", {})[ANNOTATION] = f"LimitRanger plugin set: {'; '.join(said)}"
