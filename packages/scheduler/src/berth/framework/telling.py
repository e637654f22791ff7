"""What plugins tell people beside their decisions: figures of what they have noted, and what would cure a rejection.

Values only. The Protocols that go with them are in `berth.framework.interface`; `berth.decisions.by_plugins` asks.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from berth.api.custom import CustomResource


class Figure(NamedTuple):
    """A number that a plugin has noted, for metrics and records.

    All figures of a name have the same labels, in the same order. Name and labels are in snake_case.
    """

    name: str
    labels: Mapping[str, str]
    value: float


class Remedy(NamedTuple):
    """A change of an object that a plugin follows, after which it would let a pod pass, as far as it can say."""

    resource: CustomResource
    namespace: str
    name: str
    patch: Mapping[str, Any]
    """A merge patch of the object."""
    what: str
    """In words, a phrase that goes on with `of the KIND NAME`: `raise max.cpu from 4 to 5`."""
