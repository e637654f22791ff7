"""Device classes as the embedded API server takes them: what is wrong with the selectors of some.

Rules: pkg/apis/resource/validation of v1.36, and what that API server says.
"""

import pytest

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.resource_types import BY_KEY
from packages.cluster.tests.objects import make_store

CLASSES = BY_KEY["resource.k8s.io", "deviceclasses"]
OWN = 'device.attributes["d.example.com"]'
TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"


def made(expression):
    selector = {"cel": {"expression": expression}}
    return make_store().create(CLASSES, "", {"metadata": {"name": "c"}, "spec": {"selectors": [selector]}})


@pytest.mark.parametrize(
    "expression",
    [
        f'device.driver == "d.example.com" && {OWN}.model == "h100"',
        f'{OWN}.services.split(",").exists(s, s == "a")',
        f"{TEN}.all(a, {TEN}.all(b, {TEN}.all(c, {TEN}.all(d, a + b + c + d > 0))))",
        'url("https://" + device.driver).getHost() != ""',  # which is not known here
    ],
)
def test_selectors_that_are_taken(expression):
    assert made(expression)["spec"]["selectors"][0]["cel"]["expression"] == expression


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("device.driver == ", "Invalid value: .*compilation failed: ERROR: <input>:1:.*Syntax error"),
        ("nobody == 1", "Invalid value: .*undeclared reference to 'nobody'"),
        ("device.driver.size()", "Invalid value: .*must evaluate to bool or the unknown type, not int"),
        ("true" + " " * 10_240, "Too long: may not be more than 10240 bytes"),
        ("".join(f"{TEN}.all({v}, " for v in "abcdef") + "true))))))", "Forbidden: too complex, exceeds cost limit"),
        (
            f'cel.bind(s, "{"x" * 5000}".replace("x", "{"y" * 5000}"), s.size() > 0 && s.lowerAscii() != "")',
            "too complex",
        ),
        (f'{OWN}.services.split(",").exists(s, s.matches("^a[0-9]+"))', "too complex"),  # parts of any length
    ],
)
def test_selectors_that_are_refused(expression, said):
    with pytest.raises(StoreError, match=rf"spec.selectors\[0\].cel.expression: .*{said}|: {said}"):
        made(expression)
