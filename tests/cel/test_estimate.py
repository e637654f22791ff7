"""What expressions might cost at most, in upstream's own figures.

Source: dynamic-resource-allocation's cel/compile_test.go and k8s.io/apiserver's pkg/cel/library/cost_test.go, v1.36.
"""

import pytest

from berth.cel.estimate import BEYOND, Shape, estimated_cost
from berth.cel.library import Environment
from berth.cel.program import EvaluationError, LimitError
from berth_cluster.strategies.resource import DEVICE
from packages.scheduler.tests.cel.expressions import VARIABLES, Expressions
from tests.effort import examples

OWN = 'device.attributes["dra.example.com"]'
CAPACITY = 'device.capacity["dra.example.com"]'


def estimated(text):
    environment = Environment("device", are_maps=True, has_bind=True)
    return estimated_cost(environment.check(text).tree, {"device": DEVICE}, DEVICE, "device")


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("false", 0),
        ('device.attributes["no-such-domain"].noSuchAttr.isGreaterThan(quantity("0"))', 6),
        ('"no-such-domain" in device.attributes', 3),
        ('device.driver == ""', 2),
        ('device.driver == "dra.example.com"', 4),
        (f"{OWN}.name", 4),
        (f'{OWN}["name"]', 4),
        (f"cel.bind(dra, {OWN}, dra.name)", 15),
        (f"{OWN}.name > 0", 5),
        (f'{OWN}.name == "fish"', 5),
        (f'{OWN}.name.isGreaterThan(semver("0.0.1"))', 6),
        (f'{OWN}.name.isGreaterThan(semver("v0.0.1", true)) && isSemver("v1.0.0", true)', 7),
        (f'{CAPACITY}.name.isGreaterThan(quantity("1Ki"))', 6),
        (f'"name" in {CAPACITY} && {CAPACITY}.name.isGreaterThan(quantity("1Ki"))', 10),
        (f'!("name" in {CAPACITY}) || {CAPACITY}.name.isGreaterThan(quantity("1Ki"))', 11),
        (f"{OWN}.a && {OWN}.b && {OWN}.c", 12),
        ('device.attributes.exists_one(x, x == "dra.example.com")', 164),
        (f'{OWN}.exists_one(x, x == "services")', 133),
        (f'{OWN}.services.split("example").size() >= 2', 19),
        (f'{OWN}.services.matches("[^a]?sym")', 18),
        ('device.capacity.exists_one(x, x == "dra.example.com")', 164),
        ("device.allowMultipleAllocations == true", 3),
        ("'ABCDEFGHIJ abcdefghij'.lowerAscii()", 3),
        ("'ABCDEFGHIJ abcdefghij'.lowerAscii() == 'abcdefghij ABCDEFGHIJ'.lowerAscii()", 9),
        ("strings.quote('ABCDEFGHIJ abcdefghij') == strings.quote('ABCDEFGHIJ abcdefghij')", 11),
        ("'abc 123 def 123'.replace('123', '456')", 3),
        ("'abc 123 def 123'.replace('', 'x')", 3),
        ("'abc 123 def 123'.split(' ', 1)", 3),
        ("'  abc 123 def 123  '.trim()", 2),
        ('quantity("200M") == quantity("0.2G") && quantity("0.2G") == quantity("200M")', 6),
        ('quantity("50M").isLessThan(quantity("50Mi"))', 3),
    ],
)
def test_estimates_are_upstreams(text, cost):
    assert estimated(text) == cost


def test_what_has_no_bound_might_cost_anything():
    shape = Shape("object", fields={"texts": Shape("list", 10, element=Shape("string", BEYOND))})
    tree = Environment("self").check("self.texts.all(t, t.contains(t))").tree
    assert estimated_cost(tree, {"self": shape}, shape) == BEYOND


def test_no_random_expression_costs_much_more_than_its_estimate():
    """The bounds of its variables are those of the values that it is given; upstream, too, leaves out a little."""
    bounded = {"name": Shape("string", 4), "index": Shape("int"), "ready": Shape("bool"), "share": Shape("double"),
               "tags": Shape("list", 3, element=Shape("string", 1)),
               "sizes": Shape("list", 3, element=Shape("int"))}  # fmt: skip
    shape = Shape("object", fields=bounded)
    environment = Environment(*VARIABLES, has_bind=True)
    for seed in range(examples(600)):
        text = Expressions(seed).flag(3)
        if "int(" in text or "self.nothing" in text:  # which may be no expression, or have no bound
            continue
        tree = environment.check(text).tree
        program = environment.program(tree)
        evaluation = program.start(VARIABLES, 1_000_000)
        try:
            program.run(evaluation)
        except (EvaluationError, LimitError):
            continue
        assert evaluation.cost <= 2 * estimated_cost(tree, dict.fromkeys(VARIABLES, shape), shape) + 10, text
