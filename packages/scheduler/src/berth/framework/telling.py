"""What plugins tell people besides their decisions: figures about their own state, and remedies for a rejection.

Values only. The matching Protocols are in `berth.framework.interface`; `berth.decisions.by_plugins` asks.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from berth.api.custom import CustomResource


class Figure(NamedTuple):
    """A number about a plugin's own state, for metrics and records.

    All figures with the same name have the same labels, in the same order. Name and labels are in snake_case.
    """

    name: str
    labels: Mapping[str, str]
    value: float


class Remedy(NamedTuple):
    """A change of an object that a plugin follows, after which, as far as it can tell, it would let a pod pass."""

    resource: CustomResource
    namespace: str
    name: str
    patch: Mapping[str, Any]
    """A merge patch of the object."""
    what: str
    """In words, a phrase that continues with `of the KIND NAME`: `raise max.cpu from 4 to 5`."""
