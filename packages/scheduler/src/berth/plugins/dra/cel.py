"""CEL selectors: which devices a class or a request means.

Takes an expression and a device, and returns yes or no to `allocator.py`. The cost of an evaluation is bounded as
upstream, and spent from the attempt's budget. Source: k8s.io/dynamic-resource-allocation/cel, v1.36. Deviations: those
of the compiler (`berth/cel/library.py`); and what a device has no field for (`device.memory`) is found when an
expression runs, not when it is compiled.
"""

from typing import Any, NamedTuple

from berth.api.dra import Device, DeviceAttribute
from berth.api.quantity import QuantityError, nano_value
from berth.api.recent import Recent
from berth.cel.library import Environment
from berth.cel.program import CompileError, LimitError, Program
from berth.cel.semver import SemverError, parse_semver
from berth.cel.values import CelQuantity, EvaluationError, type_of

MAX_COST = 1_000_000
"""The most that an evaluation may cost, in upstream's units (CELSelectorExpressionMaxCost)."""
MAX_SELECTORS = 1024
MAX_CHARACTERS = 1 << 20
"""How many compiled selectors are kept, and how long they may be together; compiled, they are far larger."""


class CelError(Exception):
    """An expression that cannot be compiled, or fails on a device; the text says which and why."""


class SelectorVerdict(NamedTuple):
    """What a selector says of a device."""

    matches: bool
    fault: str
    """Why the selector fails on the device; empty if it does not."""
    steps: int
    """What finding out counts in an attempt's budget of work."""


class _ByDomain(dict[str, Any]):
    """Attributes or capacities by domain; of a domain that a device knows nothing of, it has none."""

    def __missing__(self, domain: str) -> dict[str, Any]:
        return {}


class DeviceView:
    """A device as selectors see it; made once, evaluated often."""

    __slots__ = ("_data", "_fault")

    def __init__(self, driver: str, device: Device) -> None:
        self._fault = ""
        self._data: dict[str, Any] = {}
        try:
            self._data = _data_of(driver, device)
        except (SemverError, QuantityError) as error:
            self._fault = str(error)

    def verdict(self, selector: Program) -> SelectorVerdict:
        """Say whether the device satisfies a selector."""
        if self._fault:
            return SelectorVerdict(False, f"CEL runtime error: {self._fault}", 1)
        evaluation = selector.start({"device": self._data}, MAX_COST)
        try:
            value = selector.run(evaluation)
        except (EvaluationError, LimitError) as error:
            return SelectorVerdict(False, f"CEL runtime error: {error}", evaluation.steps)
        if isinstance(value, bool):
            return SelectorVerdict(value, "", evaluation.steps)
        fault = f"CEL runtime error: CEL result of type {type_of(value)} could not be converted to bool"
        return SelectorVerdict(False, fault, evaluation.steps)


class Selectors:
    """Expressions, compiled; the latest ones are kept."""

    __slots__ = ("_compiled", "_environment")

    def __init__(self, max_expressions: int = MAX_SELECTORS) -> None:
        self._compiled: Recent[str, Program | CelError] = Recent(max_expressions, MAX_CHARACTERS)
        self._environment = Environment("device", are_maps=True, has_bind=True)

    def __contains__(self, text: str) -> bool:
        return text in self._compiled

    def get(self, text: str) -> Program:
        """Return an expression, compiled. Raises `CelError`."""
        found = self._compiled.get(text)
        if found is None:
            found = self._compile(text)
            self._compiled.put(text, found, len(text))
        if isinstance(found, CelError):
            raise found
        return found

    def _compile(self, text: str) -> Program | CelError:
        try:
            checked = self._environment.check(text)
            if checked.kind not in ("bool", "dyn"):
                raise CompileError(f"must evaluate to bool or the unknown type, not {checked.kind}")
            return self._environment.program(checked.tree)
        except CompileError as error:
            return CelError(f"CEL compile error: {error}")


def _data_of(driver: str, device: Device) -> dict[str, Any]:
    attributes, capacity = _ByDomain(), _ByDomain()
    for name, attribute in device.attributes.items():
        domain, key = qualified(name, driver)
        attributes.setdefault(domain, {})[key] = _attribute_value(name, attribute)
    for name, amount in device.capacity.items():
        domain, key = qualified(name, driver)
        capacity.setdefault(domain, {})[key] = CelQuantity(nano_value(amount.value))
    return {
        "driver": driver,
        "attributes": attributes,
        "capacity": capacity,
        "allowMultipleAllocations": device.allow_multiple_allocations or False,
    }


def qualified(name: str, driver: str) -> tuple[str, str]:
    """Split an attribute's or capacity's name into domain and identifier; the domain is the driver's where none is."""
    domain, slash, key = name.partition("/")
    return (domain, key) if slash else (driver, name)


def _attribute_value(name: str, attribute: DeviceAttribute) -> Any:
    if attribute.version is not None:
        return parse_semver(attribute.version)
    for value in (attribute.int_, attribute.bool_, attribute.string):
        if value is not None:
            return value
    raise SemverError(f"attribute {name}: unsupported attribute value")
