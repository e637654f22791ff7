"""Checks a plugin's answers against the contract, and says what is wrong with them.

These sentences are for the plugin's author: they name the class, the method, its origin, the answer, and what was
expected.
"""

from collections.abc import Iterable
from typing import Any

from berth.api.codec import KINDS
from berth.api.near_names import nearest
from berth.framework.events import WILDCARD, Action, ClusterEvent, ClusterEventWithHint

MOST_SHOWN = 80

FOLLOWED = (WILDCARD, "UnscheduledPod", *KINDS)
"""The kinds of objects of which there are events."""


def _has_events(resource: str) -> bool:
    """Say whether this is the name of objects: a kind, or a followed resource such as `foos.v1.example.com` or
    `pods.v1`.
    """
    parts = resource.split(".")
    is_of_core = len(parts) == 2 and parts[1][:1] == "v" and parts[1][1:2].isdigit()
    return resource in FOLLOWED or (all(parts) and (len(parts) > 2 or is_of_core))


def shown(value: Any) -> str:
    """Return a value with its type, as a message names it."""
    if value is None:
        return "None"
    try:
        text = repr(value)
    except Exception:  # the `__repr__` of a plugin's own class may be broken too
        text = "a value"
    if len(text) > MOST_SHOWN:
        text = text[:MOST_SHOWN] + "…"
    return f"{text} (of type {type(value).__name__})"


def wrong_events(answer: Any) -> list[str]:
    """Return what is wrong with the answer of `events_to_register`, each as the rest of a sentence."""
    if isinstance(answer, str | bytes) or not isinstance(answer, Iterable):
        return [f"returned {shown(answer)}, but a sequence of ClusterEventWithHint is expected"]
    return [fault for number, entry in enumerate(answer) if (fault := _wrong_event(number, entry)) is not None]


def _wrong_event(number: int, entry: Any) -> str | None:
    if isinstance(entry, ClusterEvent):
        return f"returned {entry!r} at [{number}], but a ClusterEventWithHint(event, hint) is expected"
    if not isinstance(entry, ClusterEventWithHint):
        return f"returned {shown(entry)} at [{number}], but a ClusterEventWithHint is expected"
    event, hint = entry
    if not isinstance(event, ClusterEvent):
        return f"returned an event {shown(event)} at [{number}], but a ClusterEvent is expected"
    if not isinstance(event.resource, str) or not _has_events(event.resource):
        near = nearest(str(event.resource), FOLLOWED)
        return f"names the kind {event.resource!r} at [{number}], of which there are no events{near}"
    if not isinstance(event.action, Action) or not event.action:
        return f"names the action {shown(event.action)} at [{number}], but an Action is expected"
    if hint is not None and not callable(hint):
        return f"gives the hint {shown(hint)} at [{number}], but a function (pod, old, new) or None is expected"
    return None
