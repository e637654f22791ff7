"""What a LimitRange demands of amounts that are requested and limited, in the words of the admission plugin.

Source: plugin/pkg/admission/limitranger, v1.36.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from berth_workloads.amounts import Amount, Amounts


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
