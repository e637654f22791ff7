"""CEL selectors: which devices a class or a request means.

An expression and a device go in, yes or no comes out; `allocator.py` asks. The expressions are compiled and evaluated
by cel-expr-python, the CEL project's own library, to which Kubernetes' quantities and semantic versions are added
here. Values of the two are passed to CEL as maps of one entry, since it knows no types of ours.
Source: k8s.io/dynamic-resource-allocation/cel, v1.36. Deviations: what is wrong with a capacity's or version's type is
found when an expression runs, not when it is compiled; costs are limited by the library's count of iterations and by
an estimate of how large values may become (`evaluation_steps`), and not by Kubernetes' cost units, which the API server
has already checked.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from berth.api.dra import Device, DeviceAttribute
from berth.api.quantity import QuantityError, nano_value
from berth.api.recent import Recent
from berth.api.untrusted import shortened
from berth.plugins.dra.semver import Semver, SemverError, normalized, parse_semver

if TYPE_CHECKING:
    from cel_expr_python import cel  # type: ignore[import-untyped]

QUANTITY = "kubernetes.Quantity"
SEMVER = "kubernetes.Semver"
NANO = 10**9
MAX_MESSAGE = 1000
"""How much of what the compiler says of an expression is told."""
INT64 = range(-(2**63), 2**63)

MAX_ITERATIONS = 10_000
"""How often the macros of one evaluation may iterate, all together: the library's own limit."""
MAX_STEPS = 1_000_000
"""The most that an evaluation may count; an expression that may cost more is refused."""
MAX_ATTRIBUTES = 64
"""How many attributes and capacities the API allows a device."""
PLAIN_STEPS = 10
ITERATIONS_PER_STEP = 5
STEPS_TO_COLLECT = 15
"""How many times as long an iteration takes that adds to a list or map."""
BYTES_PER_STEP = 10_000

_GROWING = re.compile(r"\+|\.(?:replace|join|format|split)\b")
"""What makes a value that is larger than those it is made from."""
_ITERATING = re.compile(r"\.(?:all|exists|exists_one|existsOne|map|filter|transformList|transformMap)\b")
_COLLECTING = re.compile(r"\.(?:map|filter|transformList|transformMap)\b")

MISSING_KEY = 'NOT_FOUND: Key not found in map : "'

Tagged = dict[str, str]
Attributes = dict[str, dict[str, Any]]


class CelError(Exception):
    """An expression that cannot be compiled, or fails on a device; the text says which and why."""


class CompiledSelector(NamedTuple):
    """A compiled expression."""

    expression: "cel.Expression"
    text: str
    steps: int
    """What an evaluation counts in an attempt's budget of work."""


class DeviceView:
    """A device as selectors see it; made once, evaluated often."""

    __slots__ = ("_activation", "_data", "_fault")

    def __init__(self, driver: str, device: Device) -> None:
        self._activation: Any = None
        self._fault = ""
        self._data: dict[str, Any] = {}
        try:
            self._data = _data_of(driver, device)
        except (SemverError, QuantityError) as error:
            self._fault = str(error)

    def matches(self, selector: CompiledSelector) -> bool:
        """Say whether the device satisfies a selector. Raises `CelError`."""
        if self._fault:
            raise CelError(f"CEL runtime error: {self._fault}")
        if self._activation is None:
            self._activation = _environment().Activation({"device": self._data})
        result = _evaluated(selector, activation=self._activation)
        if isinstance(result.value(), bool):
            return bool(result.value())
        return self._matches_with_domains(selector, result)

    def _matches_with_domains(self, selector: CompiledSelector, result: Any) -> bool:
        """Evaluate again with each missing domain as an empty one, as upstream does from the start."""
        data = {**self._data, "attributes": {**self._data["attributes"]}, "capacity": {**self._data["capacity"]}}
        while (missed := _missing_key(result)) is not None and missed not in data["attributes"].keys() & data[
            "capacity"
        ].keys():
            data["attributes"].setdefault(missed, {})
            data["capacity"].setdefault(missed, {})
            result = _evaluated(selector, data={"device": data})
        if isinstance(result.value(), bool):
            return bool(result.value())
        raise CelError(_runtime_error(result))


class Selectors:
    """Compiled expressions, the latest ones kept."""

    __slots__ = ("_compiled",)

    def __init__(self, max_expressions: int = 1024) -> None:
        self._compiled: Recent[str, CompiledSelector | CelError] = Recent(max_expressions)

    def get(self, text: str) -> CompiledSelector:
        """Return an expression, compiled. Raises `CelError`."""
        found = self._compiled.get(text)
        if found is None:
            found = _compile(text)
            self._compiled.put(text, found, len(text))
        if isinstance(found, CelError):
            raise found
        return found


def evaluation_steps(text: str) -> int:
    """Return what an evaluation of an expression may count at most, in steps of about a microsecond.

    Macros are taken to be nested, each over all attributes of a device or the longest list that the text can hold. The
    library ends an evaluation after 10,000 iterations; it does not limit how large values may become. So each operator
    that makes larger ones is taken to do so in every iteration, and each `cel.bind` to use them as often again.
    """
    macros = len(_ITERATING.findall(text))
    elements = MAX_ITERATIONS if ".split" in text else MAX_ATTRIBUTES + text.count(",")
    iterations = min(MAX_ITERATIONS, int(elements**macros))
    looping = iterations * (STEPS_TO_COLLECT if _COLLECTING.search(text) else 1) // ITERATIONS_PER_STEP
    growing = 1 + len(_GROWING.findall(text))
    size = len(text) * int(growing ** min(1 + text.count("cel.bind"), 32))
    return PLAIN_STEPS + looping + iterations * size // BYTES_PER_STEP


def _compile(text: str) -> CompiledSelector | CelError:
    steps = evaluation_steps(text)
    if steps > MAX_STEPS:
        return CelError(f"CEL compile error: too complex: an evaluation may cost {steps} steps, more than {MAX_STEPS}")
    try:
        expression = _environment().compile(text)
    except RuntimeError as error:
        told = str(error).removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
        return CelError(f"CEL compile error: compilation failed: {shortened(told, MAX_MESSAGE)}")
    kind = expression.return_type().name().lower()
    if kind not in ("bool", "dyn"):
        return CelError(f"CEL compile error: must evaluate to bool or the unknown type, not {kind}")
    return CompiledSelector(expression, text, steps)


def _evaluated(selector: CompiledSelector, **given: Any) -> Any:
    """Return what the library says, errors of the expression included; raises `CelError` where it gives up."""
    try:
        return selector.expression.eval(**given)
    except RuntimeError as error:
        told = str(error).removeprefix("INTERNAL: ").removesuffix(" [INTERNAL]")
        raise CelError(f"CEL runtime error: {told}") from None


def _missing_key(result: Any) -> str | None:
    told = result.value()
    if isinstance(told, str) and told.startswith(MISSING_KEY):
        return told.removeprefix(MISSING_KEY).removesuffix('"')
    return None


def _runtime_error(result: Any) -> str:
    missed = _missing_key(result)
    if missed is not None:
        return f"CEL runtime error: no such key: {missed}"
    kind = result.type().name().lower()
    if kind != "error":
        return f"CEL runtime error: CEL result of type {kind} could not be converted to bool"
    told = str(result.value()).partition(": ")[2] or str(result.value())
    return "CEL runtime error: " + ("no such overload" if told.startswith("No matching overloads") else told)


def _data_of(driver: str, device: Device) -> dict[str, Any]:
    attributes: Attributes = {}
    capacity: Attributes = {}
    for name, attribute in device.attributes.items():
        domain, key = qualified(name, driver)
        attributes.setdefault(domain, {})[key] = _attribute_value(name, attribute)
    for name, amount in device.capacity.items():
        domain, key = qualified(name, driver)
        capacity.setdefault(domain, {})[key] = _tag_quantity(nano_value(amount.value))
    shared = device.allow_multiple_allocations or False
    return {
        "driver": driver,
        "attributes": attributes,
        "capacity": capacity,
        "allowMultipleAllocations": shared,
    }


def qualified(name: str, driver: str) -> tuple[str, str]:
    """Split an attribute's or capacity's name into domain and identifier; the domain is the driver's where none is."""
    domain, slash, key = name.partition("/")
    return (domain, key) if slash else (driver, name)


def _attribute_value(name: str, attribute: DeviceAttribute) -> Any:
    if attribute.version is not None:
        return {SEMVER: parse_semver(attribute.version).text}
    for value in (attribute.int_, attribute.bool_, attribute.string):
        if value is not None:
            return value
    raise SemverError(f"attribute {name}: unsupported attribute value")


@lru_cache(maxsize=1)
def _environment() -> "cel.Env":
    """Make CEL's environment, once, and only where there is a selector."""
    from cel_expr_python import cel
    from cel_expr_python.ext import (  # type: ignore[import-untyped]
        ext_bindings,
        ext_math,
        ext_optional,
        ext_strings,
    )

    extensions = [ext_optional.ExtOptional(), ext_bindings.ExtBindings(), ext_strings.ExtStrings(), ext_math.ExtMath()]
    kubernetes = cel.CelExtension("kubernetes", _declarations(cel))
    return cel.NewEnv(
        variables={"device": cel.Type.Map(cel.Type.STRING, cel.Type.DYN)}, extensions=[*extensions, kubernetes]
    )


def _declarations(cel: Any) -> list[Any]:
    kinds = cel.Type

    def declare(name: str, *overloads: tuple[Any, tuple[Any, ...], Callable[..., Any]], member: bool = True) -> Any:
        return cel.FunctionDecl(
            name,
            [
                cel.Overload(f"{name}_{index}", return_type=result, parameters=list(takes), is_member=member, impl=does)
                for index, (result, takes, does) in enumerate(overloads)
            ],
        )

    dyn, text, flag, number = kinds.DYN, kinds.STRING, kinds.BOOL, kinds.INT
    return [
        declare("quantity", (dyn, (text,), _quantity), member=False),
        declare("isQuantity", (flag, (text,), _is_quantity), member=False),
        declare("semver", (dyn, (text,), _semver), (dyn, (text, flag), _semver), member=False),
        declare("isSemver", (flag, (text,), _is_semver), (flag, (text, flag), _is_semver), member=False),
        declare("sign", (number, (dyn,), lambda q: (nano := _nano(q)) and (1 if nano > 0 else -1))),
        declare("isGreaterThan", (flag, (dyn, dyn), lambda a, b: _compare(a, b) > 0)),
        declare("isLessThan", (flag, (dyn, dyn), lambda a, b: _compare(a, b) < 0)),
        declare("compareTo", (number, (dyn, dyn), _compare)),
        declare("asApproximateFloat", (kinds.DOUBLE, (dyn,), lambda q: _nano(q) / NANO)),
        declare("asInteger", (number, (dyn,), _as_integer)),
        declare("isInteger", (flag, (dyn,), lambda q: _nano(q) % NANO == 0 and _nano(q) // NANO in INT64)),
        declare("add", (dyn, (dyn, dyn), lambda q, other: _tag_quantity(_nano(q) + _operand(other)))),
        declare("sub", (dyn, (dyn, dyn), lambda q, other: _tag_quantity(_nano(q) - _operand(other)))),
        declare("major", (number, (dyn,), lambda v: _version(v).major)),
        declare("minor", (number, (dyn,), lambda v: _version(v).minor)),
        declare("patch", (number, (dyn,), lambda v: _version(v).patch)),
    ]


def _tag_quantity(nano: int) -> Tagged:
    return {QUANTITY: str(nano)}


def _quantity(text: str) -> Tagged:
    try:
        return _tag_quantity(nano_value(text))
    except QuantityError as error:
        raise ValueError(str(error)) from error


def _is_quantity(text: str) -> bool:
    try:
        nano_value(text)
    except QuantityError:
        return False
    return True


def _semver(text: str, normalize: bool = False) -> Tagged:
    return {SEMVER: parse_semver(normalized(text) if normalize else text).text}


def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        _semver(text, normalize)
    except SemverError:
        return False
    return True


def _tagged(value: Any, tag: str) -> str:
    if isinstance(value, Mapping) and value.keys() == {tag}:
        return str(value[tag])
    raise TypeError("no such overload")


def _nano(value: Any) -> int:
    return int(_tagged(value, QUANTITY))


def _operand(value: Any) -> int:
    return value * NANO if isinstance(value, int) and not isinstance(value, bool) else _nano(value)


def _version(value: Any) -> Semver:
    return parse_semver(_tagged(value, SEMVER))


def _compare(a: Any, b: Any) -> int:
    if isinstance(a, Mapping) and a.keys() == {SEMVER}:
        one, other = _version(a), _version(b)
        return (one > other) - (one < other)
    return (_nano(a) > _nano(b)) - (_nano(a) < _nano(b))


def _as_integer(value: Any) -> int:
    whole, rest = divmod(_nano(value), NANO)
    if rest or whole not in INT64:
        raise ValueError("cannot convert value to integer")
    return whole
