"""What a LimitRange demands of amounts that are requested and limited, in the words of the admission plugin.

Source: plugin/pkg/admission/limitranger, v1.36.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from berth_workloads.amounts import Amount, Amounts, amounts
from berth_workloads.pods import Json, objects_in, pod_total

ANNOTATION = "kubernetes.io/limit-ranger"
BOUNDS = ("min", "max", "maxLimitRequestRatio")


class Limited(NamedTuple):
    """The amounts of a container, a pod or a claim."""

    requests: Amounts
    limits: Amounts


def violations(
    kind: str, given: Limited, least: Amounts, most: Amounts, ratio: Amounts, *, requests_only: bool = False
) -> Iterator[str]:
    """Yield what is too small, too large, or too far apart; `kind` is Container, Pod or PersistentVolumeClaim."""
    for name in sorted(least):
        yield from _too_small(f"minimum {name} usage per {kind} is {least[name]}", name, given, least[name])
    for name in sorted(most):
        text = f"maximum {name} usage per {kind} is {most[name]}"
        yield from _too_large(text, name, given, most[name], requests_only=requests_only)
    for name in sorted(ratio):
        text = f"{name} max limit to request ratio per {kind} is {ratio[name]}"
        yield from _too_far_apart(text, given.requests.get(name), given.limits.get(name), ratio[name])


def _too_small(text: str, name: str, given: Limited, bound: Amount) -> Iterator[str]:
    request, limit = given.requests.get(name), given.limits.get(name)
    if request is None:
        yield f"{text}.  No request is specified"
    elif request.value < bound.value:
        yield f"{text}, but request is {request}"
    elif limit is not None and limit.value < bound.value:
        yield f"{text}, but limit is {limit}"


def _too_large(text: str, name: str, given: Limited, bound: Amount, *, requests_only: bool) -> Iterator[str]:
    request, limit = given.requests.get(name), given.limits.get(name)
    counts = request if requests_only else limit
    if counts is None:
        yield f"{text}.  No {'request' if requests_only else 'limit'} is specified"
    elif limit is not None and limit.value > bound.value:
        yield f"{text}, but limit is {limit}"
    elif request is not None and request.value > bound.value:
        yield f"{text}, but request is {request}"


def _too_far_apart(text: str, request: Amount | None, limit: Amount | None, bound: Amount) -> Iterator[str]:
    if request is None or not request.value:
        yield f"{text}, but no request is specified or request is 0"
    elif limit is None or not limit.value:
        yield f"{text}, but no limit is specified or limit is 0"
    elif limit.value / request.value > bound.value:
        yield f"{text}, but provided ratio is {float(limit.value / request.value):.6f}"


def with_defaults(default: Mapping[str, str], request: Mapping[str, str], least: Mapping[str, str],
                  most: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:  # fmt: skip
    """Return the default limits and requests of a range for containers, of which some follow from the others."""
    limits = {**most, **default}
    return limits, {**least, **limits, **request}


def completed_items(limit_range: Json) -> Iterator[Json]:
    """Yield the limits of a LimitRange with the defaults that follow from one another, as they are stored."""
    for item in objects_in(limit_range.get("spec") or {}, "limits"):
        if item.get("type") != "Container":
            yield item
            continue
        parts = [item.get(name) or {} for name in ("default", "defaultRequest", "min", "max")]
        limits, requests = with_defaults(*parts)
        yield {**item, **{name: part for name, part in (("default", limits), ("defaultRequest", requests)) if part}}


# --- what admission does because of them -----------------------------------------------------------------------------


def set_default_amounts(pod: Json, limit_range: Json) -> None:
    """Give the containers of a pod the default amounts of a LimitRange."""
    told: list[str] = []
    for item in completed_items(limit_range):
        if item.get("type") == "Container":
            told += _set_defaults(pod["spec"], item)
    if told:
        annotations = pod["metadata"].setdefault("annotations", {})
        annotations[ANNOTATION] = f"LimitRanger plugin set: {'; '.join(told)}"


def _set_defaults(spec: Json, item: Json) -> Iterator[str]:
    for section, words in (("containers", "container"), ("initContainers", "init container")):
        for container in objects_in(spec, section):
            resources = container.setdefault("resources", {})
            for part, default in (("requests", "defaultRequest"), ("limits", "default")):
                missing = {
                    name: given
                    for name, given in (item.get(default) or {}).items()
                    if name not in (resources.get(part) or {})
                }
                if missing:
                    resources[part] = {**(resources.get(part) or {}), **missing}
                    yield f"{', '.join(sorted(missing))} {part[:-1]} for {words} {container.get('name')}"


def limit_range_refusal(kind: str, spec: Json, limit_ranges: Iterable[Json]) -> str:
    """Say what the first LimitRange has against a pod or a claim, by its spec, that has anything."""
    broken = _broken_by_claim if kind == "PersistentVolumeClaim" else _broken_by_pod
    for limit_range in limit_ranges:
        items = objects_in(limit_range.get("spec") or {}, "limits")
        why = in_one_line(text for item in items for text in broken(spec, item))
        if why:
            return why
    return ""


def in_one_line(errors: Iterable[str]) -> str:
    """Return what is wrong as the API server lists it: each error once, in brackets where there are several."""
    told = list(dict.fromkeys(errors))
    return told[0] if len(told) == 1 else f"[{', '.join(told)}]" if told else ""


def _broken_by_pod(spec: Json, item: Json) -> Iterator[str]:
    kind, bounds = item.get("type", ""), [amounts(item.get(name)) for name in BOUNDS]
    if kind == "Container":
        for section in ("containers", "initContainers"):
            for container in objects_in(spec, section):
                yield from violations(kind, limited_by(container.get("resources") or {}), *bounds)
    elif kind == "Pod":
        yield from violations(kind, Limited(pod_total(spec, "requests"), pod_total(spec, "limits")), *bounds)


def _broken_by_claim(spec: Json, item: Json) -> Iterator[str]:
    kind = "PersistentVolumeClaim"
    if item.get("type") != kind:
        return iter(())
    asked = amounts((spec.get("resources") or {}).get("requests"))
    least, most = amounts(item.get("min")), amounts(item.get("max"))
    return violations(kind, Limited(asked, {}), least, most, {}, requests_only=True)


def limited_by(resources: Json) -> Limited:
    """Return the amounts of a container."""
    return Limited(amounts(resources.get("requests")), amounts(resources.get("limits")))
