"""Selectors: the examples of the DRA documentation, and Kubernetes' quantity and semver libraries (v1.36)."""

import pytest

from berth.api.codec import decode
from berth.plugins.dra.cel import CelError, DeviceView, Selectors
from packages.scheduler.tests.plugins.dra.support import DRIVER, device

SPEC = device(
    "d",
    {"model": "h100", "index": 3, "mig": False, "driverVersion": ("version", "1.10.0"), "other.example.com/link": "x"},
    {"memory": "40Gi", "other.example.com/lanes": "16"},
)


def view(spec=SPEC):
    document = {"metadata": {"name": "s"}, "spec": {"driver": DRIVER, "devices": [spec]}}
    return DeviceView(DRIVER, decode("ResourceSlice", document).spec.devices[0])


def verdict(expression, spec=SPEC):
    return view(spec).verdict(Selectors().get(expression))


def matches(expression, spec=SPEC):
    found = verdict(expression, spec)
    assert not found.fault
    return found.matches


def fault(expression, spec=SPEC):
    try:
        return verdict(expression, spec).fault
    except CelError as error:
        return str(error)


MEMORY = f'device.capacity["{DRIVER}"].memory'
OWN = f'device.attributes["{DRIVER}"]'


TEN = "[1,2,3,4,5,6,7,8,9,10]"
ENDLESS = f"{TEN}.all(a, " * 8 + "true" + ")" * 8


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (f'device.driver == "{DRIVER}"', True),
        ('device.driver == "other"', False),
        (f'{OWN}.model == "h100"', True),
        (f'{OWN}.model in ["a100", "h100"]', True),
        (f"{OWN}.index < 2", False),
        (f"!{OWN}.mig", True),
        (f'{OWN}.model.startsWith("h") && {OWN}.model.matches("^h[0-9]+$")', True),
        (f'{MEMORY}.compareTo(quantity("40Gi")) == 0', True),
        (f'{MEMORY}.isGreaterThan(quantity("39Gi"))', True),
        (f'{MEMORY}.isLessThan(quantity("40Gi"))', False),
        (f'{MEMORY} == quantity("40960Mi")', True),
        (f"{MEMORY}.isInteger() && {MEMORY}.asInteger() == 42949672960", True),
        (f'{MEMORY}.sub(quantity("30Gi")).add(1).compareTo(quantity("10Gi")) == 1', True),
        (f"sign({MEMORY}) == 1 && {MEMORY}.asApproximateFloat() > 1.0e9", True),
        (f'{OWN}.driverVersion.isGreaterThan(semver("1.9.3"))', True),
        (f'{OWN}.driverVersion.compareTo(semver("1.10.0")) == 0', True),
        (f'{OWN}.driverVersion.isLessThan(semver("v1.11", true))', True),
        (f"{OWN}.driverVersion.major() == 1 && {OWN}.driverVersion.minor() == 10", True),
        ('isSemver("1.0") || isQuantity("200K")', False),
        ('isSemver("v1.0", true) && isQuantity("1.3Gi")', True),
        ('device.attributes["other.example.com"].link == "x"', True),
        ('device.capacity["other.example.com"].lanes.asInteger() == 16', True),
        (f"cel.bind(gpu, {OWN}, gpu.index == 3 && !gpu.mig)", True),
        (f"has({OWN}.nothing)", False),
        (f"{OWN}.?nothing.orValue(7) == 7", True),
        (f'"model" in {OWN}', True),
        ('"nowhere.example.com" in device.attributes', False),
        ('has(device.attributes["nowhere.example.com"].link)', False),
        ('device.attributes["nowhere.example.com"].?link.orValue("y") == "y"', True),
        (f'{OWN}.index == "3"', False),
        (f"{OWN}.nothing == 1 || true", True),
        ("device.allowMultipleAllocations", False),
        (f'{OWN}.model.lowerAscii().split("1").size() == 2', True),
    ],
)
def test_expressions(expression, expected):
    assert matches(expression) is expected


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        (f"{OWN}.nothing == 1", "CEL runtime error: no such key: nothing"),
        # A domain that a device knows nothing of is an empty map: the attribute is what is missing.
        ('device.attributes["nowhere.example.com"].link', "CEL runtime error: no such key: link"),
        (f"{OWN}.model > 3", "CEL runtime error: no such overload"),
        (f"{OWN}.model", "CEL runtime error: CEL result of type string could not be converted to bool"),
        (f"{MEMORY}.isGreaterThan(semver('1.0.0'))", "no such overload"),
        ('quantity("200K") == quantity("1")', "'200K' is not a quantity"),
        ("?!", "CEL compile error: compilation failed: "),
        ("1", "CEL compile error: must evaluate to bool or the unknown type, not int"),
        ("nobody == 1", "undeclared reference to 'nobody'"),
        (ENDLESS, "CEL runtime error: operation cancelled: actual cost limit exceeded"),
        ("[1][3] == 1", "CEL runtime error: index out of bounds: 3"),
        ("1 / (device.driver.size() - 15) == 1", "CEL runtime error: division by zero"),
        ("device.driver.matches('(' + device.driver)", "CEL runtime error: error parsing regexp: missing ): ("),
    ],
)
def test_what_is_wrong_with_an_expression(expression, said):
    assert said in fault(expression)


def test_a_device_with_a_version_that_is_none():
    broken = device("d", {"v": ("version", "1")})
    assert "CEL runtime error: '1' is not a semantic version" in fault("true", broken)


def test_expressions_are_compiled_once_and_bounded():
    selectors = Selectors(max_expressions=2)
    first = selectors.get("true")
    assert selectors.get("true") is first
    selectors.get("false")
    selectors.get("1 == 1")
    assert selectors.get("true") is not first


@pytest.mark.parametrize(
    ("expression", "cost"),
    [
        ('"no-such-domain" in device.attributes', 3),
        ('device.driver == ""', 2),
        (f'device.driver == "{DRIVER}"', 4),
        (f"{OWN}.mig", 4),
        (f'{OWN}["mig"]', 4),
        (f"{OWN}.index > 0", 5),
        (f'{OWN}.model == "h100"', 5),
        (f"{OWN}.driverVersion.isGreaterThan(semver('0.0.1'))", 6),
        (f"{MEMORY}.isLessThan(quantity('1Gi'))", 6),
    ],
)
def test_costs_are_those_of_upstreams_own_table(expression, cost):
    """Source: compile_test.go beside upstream's compiler, v1.36; where it estimates, nothing here has another size."""
    program = Selectors().get(expression)
    evaluation = program.start({"device": view()._data}, 1000)
    program.run(evaluation)
    assert evaluation.cost == cost


def test_a_selector_may_cost_a_million_and_not_more():
    """Making n thousand letters costs 0.2 n, going through them a hundred n each time."""
    within, beyond = (
        f'cel.bind(x, "{"x" * n}".replace("x", "{"y" * 1000}"), x.lowerAscii() != "" && x.upperAscii() != "")'
        for n in (4980, 5000)
    )
    assert matches(within) is True
    assert fault(beyond) == "CEL runtime error: operation cancelled: actual cost limit exceeded"
