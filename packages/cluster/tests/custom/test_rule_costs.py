"""What rules might cost, in upstream's own figures, and definitions that are refused by it.

Source: TestCostEstimation in apiextensions-apiserver's schema/cel/compilation_test.go (v1.36): what each rule might
cost where nothing has a bound, and where it has one. Refusals are what that API server says.
"""

import pytest

from berth_cluster.apimachinery.errors import FieldErrors
from berth_cluster.custom.rule_costs import parts_at_most, rule_cost
from berth_cluster.custom.rules import compiled
from berth_cluster.custom.structural import check_schema

NUMBER, INTEGER, STRING, BOOLEAN = ({"type": kind} for kind in ("number", "integer", "string", "boolean"))
EITHER = {"x-kubernetes-int-or-string": True}
ALL = "self.all(x, true)"
OBJECT = {"type": "object", "required": ["required"], "properties": {"required": STRING, "optional": STRING}}


def array(items):
    return lambda most: {"type": "array", "items": items, **({} if most is None else {"maxItems": most})}


def mapping(values):
    bound = "maxProperties"
    return lambda most: {"type": "object", "additionalProperties": values, **({} if most is None else {bound: most})}


def text(**more):
    return lambda most: {**STRING, **more, **({} if most is None else {"maxLength": most})}


def nested(most):
    return mapping({**STRING, **({} if most is None else {"maxLength": most})})(most)


@pytest.mark.parametrize(
    ("schema", "rule", "cost", "most", "bounded"),
    [
        (array(NUMBER), ALL, 4718591, 10, 32),
        (array(STRING), ALL, 3145727, 20, 62),
        (array(BOOLEAN), ALL, 1887437, 5, 17),
        (array({"type": "array", "items": NUMBER}), ALL, 3145727, 100, 302),
        (array(OBJECT), ALL, 555128, 50, 152),
        (mapping(NUMBER), ALL, 1348169, 10, 32),
        (mapping(STRING), ALL, 1179647, 3, 11),
        (mapping(BOOLEAN), ALL, 943718, 100, 302),
        (text(), "self.contains('test')", 314574, 10, 5),
        (text(), "self.startsWith('test')", 2, 15, 2),
        (text(), 'size(self + "hello") > size("hello")', 314578, 4, 7),
        (array(NUMBER), "self[1] == 0.0", 2, 5000, 2),
        (array(STRING), "self[1] == self[1]", 314577, 8, 314577),
        (text(), 'self.matches("x")', 314574, 50, 22),
        (text(), '"".matches("(((((((((())))))))))[0-9]")', 7, 10, 7),
        (text(), 'self.matches("")', 1, 100, 1),
        (nested, "self.all(x, x.contains(self[x]))", 2752507, 10, 72),
        (mapping(NUMBER), 'self["x"] == 0.0', 2, 0, 2),
        (text(), 'self == "x"', 2, 0, 1),
        (text(format="byte"), 'self == b"x"', 2, 0, 1),
        (array(NUMBER), "self.all(x, x == 0.0)", 6291454, 3 * 1024 * 2048, 25165826),
        (array(EITHER), ALL, 4718591, 10, 32),
        (array(EITHER), "self[0] == 5", 3, 10, 3),
    ],
)
def test_estimates_are_upstreams(schema, rule, cost, most, bounded):
    tree = compiled(rule, "bool")
    assert rule_cost(tree, {}, schema(None), is_root=False)[0] == cost
    assert rule_cost(tree, {}, schema(most), is_root=False)[0] == bounded


@pytest.mark.parametrize(("rule", "bounded"), [("self.all(x, self.all(y, true))", 352),
                                               ("self.all(x, self.all(y, self.all(z, true)))", 3552)])  # fmt: skip
def test_loops_in_loops_without_bounds_might_cost_more_than_any_rule_may(rule, bounded):
    tree = compiled(rule, "bool")
    assert rule_cost(tree, {}, array(NUMBER)(None), is_root=False)[0] > 10_000_000
    assert rule_cost(tree, {}, array(NUMBER)(10), is_root=False)[0] == bounded


def test_values_are_as_many_as_the_lists_and_maps_around_them_hold():
    inner = mapping(NUMBER)(5)
    assert parts_at_most(array(inner)(10), 1) == 10
    assert parts_at_most(inner, 10) == 50
    assert parts_at_most({"type": "object", "properties": {"a": inner}}, 10) == 10
    assert parts_at_most(array(inner)(None), 10) is None
    assert parts_at_most(inner, None) is None


def refused(**properties):
    """What is said of a schema with these properties."""
    errors = FieldErrors()
    check_schema({"type": "object", "properties": properties}, "openAPIV3Schema", errors)
    causes = errors.refusal("X", "", "").details["causes"] if errors else []
    return [f"{cause['field']}: {cause['message']}" for cause in causes]


def ruled(schema, *rules):
    return {**schema, "x-kubernetes-validations": [{"rule": rule} for rule in rules]}


TRY = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)
PLACE = "openAPIV3Schema.properties[x]"
TOTAL = "estimated rule cost total"


def test_a_rule_that_might_cost_too_much_is_refused():
    [told, *_] = refused(x=ruled(array(NUMBER)(None), "self.all(x, self.all(y, x <= y))"))
    why = f"estimated rule cost exceeds budget by factor of more than 100x {TRY}"
    assert told == f"{PLACE}.x-kubernetes-validations[0].rule: Forbidden: {why}"
    assert refused(x=ruled(array(NUMBER)(100), "self.all(x, self.all(y, x <= y))")) == []


def test_rules_that_might_cost_too_much_together_are_refused():
    """Each might cost 6.3 million; the four most expensive are named."""
    properties = {f"x{number:02}": ruled(array(NUMBER)(None), "self.all(x, x == 0.0)") for number in range(16)}
    assert refused(**dict(list(properties.items())[:15])) == []
    place = "openAPIV3Schema.properties[x0{}].x-kubernetes-validations[0].rule"
    why = f"contributed to {TOTAL} exceeding cost limit for entire OpenAPIv3 schema"
    *named, told = refused(**properties)
    assert named == [f"{place.format(number)}: Forbidden: {why}" for number in range(4)]
    budget = f"{TOTAL} for entire OpenAPIv3 schema exceeds budget by factor of 1.006633x {TRY}"
    assert told == f"openAPIV3Schema: Forbidden: x-kubernetes-validations {budget}"


def test_a_rule_about_many_values_costs_as_often():
    text_rule = ruled(text()(1000), "self.contains('abc')")
    assert refused(x=array(text_rule)(1000)) == []
    [told, *_] = refused(x=array(text_rule)(None))
    why = f"estimated rule cost exceeds budget by factor of 42.0x {TRY}"
    assert told == f"{PLACE}.items.x-kubernetes-validations[0].rule: Forbidden: {why}"


@pytest.mark.parametrize("terms", [5_000, 20_000])
def test_as_many_terms_as_an_expression_may_have(terms):
    """An expression may have 100,000 characters."""
    told = refused(x=ruled(BOOLEAN, " && ".join(["self"] * terms)))
    assert told == [] if terms == 5_000 else "expression size exceeds codepoint limit" in told[0]
