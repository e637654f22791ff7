"""Constraints across the devices of a claim: all have the same value of an attribute, or no two have.

`allocator.py` adds each device it tries and takes it off again where it must try another. A constraint never becomes
satisfied by adding devices. Source: k8s.io/dynamic-resource-allocation/structured, v1.36. Deviation: distinctAttribute
holds between any two devices, as the API documents it, also between those of one request.
"""

from collections.abc import Mapping
from typing import Protocol

from berth.api.dra import DeviceAttribute, DeviceConstraint
from berth.cel.semver import SemverError, parse_semver
from berth.plugins.dra.cel import qualified

Value = tuple[str, object]
"""An attribute's value together with its type: values of different types are never equal."""


class ConstraintCheck(Protocol):
    """One constraint, with the devices that it counts at the moment."""

    def add(self, request: str, subrequest: str, driver: str, attributes: Mapping[str, DeviceAttribute]) -> bool:
        """Count a device; False, with nothing counted, where it breaks the constraint."""
        ...

    def remove(self, request: str, subrequest: str) -> None:
        """Take off the device added last for this request."""
        ...


def constraint_of(constraint: DeviceConstraint) -> ConstraintCheck | None:
    """Return a constraint without devices; None where it is of no known kind."""
    requests = frozenset(constraint.requests)
    if constraint.match_attribute is not None:
        return MatchAttribute(requests, constraint.match_attribute)
    if constraint.distinct_attribute is not None:
        return DistinctAttribute(requests, constraint.distinct_attribute)
    return None


class _AttributeConstraint:
    __slots__ = ("_attribute", "_requests", "_values")

    def __init__(self, requests: frozenset[str], attribute: str) -> None:
        self._requests = requests
        self._attribute = attribute
        self._values: list[Value] = []

    def add(self, request: str, subrequest: str, driver: str, attributes: Mapping[str, DeviceAttribute]) -> bool:
        """Count a device where its value agrees with the constraint."""
        if not self._applies(request, subrequest):
            return True
        value = attribute_value(self._attribute, driver, attributes)
        if value is None or not self._accepts(value):
            return False
        self._values.append(value)
        return True

    def remove(self, request: str, subrequest: str) -> None:
        """Take off the device added last."""
        if self._applies(request, subrequest):
            self._values.pop()

    def _applies(self, request: str, subrequest: str) -> bool:
        if not self._requests or request in self._requests:
            return True
        return bool(subrequest) and f"{request}/{subrequest}" in self._requests

    def _accepts(self, value: Value) -> bool:
        raise NotImplementedError


class MatchAttribute(_AttributeConstraint):
    """All devices have the attribute, with the same value."""

    __slots__ = ()

    def _accepts(self, value: Value) -> bool:
        return not self._values or value == self._values[0]


class DistinctAttribute(_AttributeConstraint):
    """All devices have the attribute, no two with the same value."""

    __slots__ = ()

    def _accepts(self, value: Value) -> bool:
        return value not in self._values


def attribute_value(name: str, driver: str, attributes: Mapping[str, DeviceAttribute]) -> Value | None:
    """Return the value of a fully qualified attribute; the driver's own may be written without its domain."""
    found = attributes.get(name)
    if found is None:
        domain, identifier = qualified(name, "")
        found = attributes.get(identifier) if domain == driver else None
    return None if found is None else _typed(found)


def _typed(attribute: DeviceAttribute) -> Value | None:
    if attribute.string is not None:
        return "string", attribute.string
    if attribute.int_ is not None:
        return "int", attribute.int_
    if attribute.bool_ is not None:
        return "bool", attribute.bool_
    if attribute.version is not None:
        try:
            return "version", parse_semver(attribute.version)
        except SemverError:
            return None
    return None
