"""What is wrong with objects of custom resources, in the words of Kubernetes 1.36."""

import pytest

from berth_cluster.apimachinery.errors import FieldErrors
from berth_cluster.custom.rules import SchemaRules
from berth_cluster.custom.validation import SchemaValidator

STRING, INTEGER = {"type": "string"}, {"type": "integer"}
NAMED = {"type": "object", "required": ["name"], "properties": {"name": STRING}}


def findings(check):
    errors = FieldErrors()
    check(errors)
    return [f"{cause['field']}: {cause['message']}" for cause in errors.refusal("X", "", "").details["causes"]]


def invalid(schema, value):
    """The findings about `value` in the field `spec.x`."""
    whole = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": schema}}}}
    return findings(lambda errors: SchemaValidator(whole).check({"spec": {"x": value}}, errors))


@pytest.mark.parametrize(
    ("schema", "value", "found"),
    [
        (INTEGER, "a", 'Invalid value: "string": spec.x in body must be of type integer: "string"'),
        (STRING, 1, 'Invalid value: "integer": spec.x in body must be of type string: "integer"'),
        (INTEGER, 2.5, 'Invalid value: "number": spec.x in body must be of type integer: "number"'),
        ({"type": "boolean"}, 1, 'Invalid value: "integer": spec.x in body must be of type boolean: "integer"'),
        ({"type": "object"}, [], 'Invalid value: "array": spec.x in body must be of type object: "array"'),
        (
            {"x-kubernetes-int-or-string": True}, True,
            'Invalid value: "boolean": spec.x in body must be of type integer,string: "boolean"',
        ),
        ({**INTEGER, "minimum": 1}, 0, "Invalid value: 0: spec.x in body should be greater than or equal to 1"),
        ({**INTEGER, "maximum": 10}, 11, "Invalid value: 11: spec.x in body should be less than or equal to 10"),
        (
            {**INTEGER, "minimum": 0, "exclusiveMinimum": True}, 0,
            "Invalid value: 0: spec.x in body should be greater than 0",
        ),
        ({"type": "number", "multipleOf": 0.5}, 0.3, "Invalid value: 0.3: spec.x in body should be a multiple of 0.5"),
        ({**STRING, "minLength": 2}, "x", 'Invalid value: "x": spec.x in body should be at least 2 chars long'),
        ({**STRING, "maxLength": 5}, "abcdefgh", "Too long: may not be more than 5 bytes"),
        ({**STRING, "pattern": "^[a-z]+$"}, "AB", "Invalid value: \"AB\": spec.x in body should match '^[a-z]+$'"),
        ({**STRING, "enum": ["red", "green"]}, "blue", 'Unsupported value: "blue": supported values: "red", "green"'),
        (
            {**STRING, "format": "date-time"}, "yesterday",
            'Invalid value: "yesterday": spec.x in body must be of type date-time: "yesterday"',
        ),
        (
            {**STRING, "format": "duration"}, "5x",
            'Invalid value: "5x": spec.x in body must be of type duration: "5x"',
        ),
        ({"type": "array", "items": STRING, "maxItems": 3}, list("abcd"), "Too many: 4: must have at most 3 items"),
        (
            {"type": "object", "additionalProperties": STRING, "maxProperties": 1}, {"a": "b", "c": "d"},
            "Too many: 2: must have at most 1 items",
        ),
    ],
)  # fmt: skip
def test_one_value(schema, value, found):
    assert invalid(schema, value) == [f"spec.x: {found}"]


@pytest.mark.parametrize(
    ("schema", "value", "found"),
    [
        ({**INTEGER, "format": "int32"}, 2**40,
         ['<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.x']),
        ({"type": "array", "items": NAMED}, [{}], ["spec.x[0].name: Required value"]),
        ({"type": "object", "additionalProperties": STRING}, {"a": 1},
         ['spec.x.a: Invalid value: "integer": spec.x.a in body must be of type string: "integer"']),
        ({"type": "array", "x-kubernetes-list-type": "set", "items": STRING}, ["a", "b", "a"],
         ['spec.x[2]: Duplicate value: "a"']),
        ({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": NAMED},
         [{"name": "a"}, {"name": "a"}], ['spec.x[1]: Duplicate value: {"name":"a"}']),
        ({**STRING, "not": {"enum": ["bad"]}}, "bad",
         ['<nil>: Invalid value: "": "spec.x" must not validate the schema (not)']),
        ({**INTEGER, "anyOf": [{"minimum": 5}, {"maximum": 2}]}, 3,
         ['<nil>: Invalid value: "": "spec.x" must validate at least one schema (anyOf)',
          "spec.x: Invalid value: 3: spec.x in body should be greater than or equal to 5"]),
        ({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"a": 1, "b": 1},
         [('<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). '
          "Found 2 valid alternatives")]),
        ({"type": "object", "x-kubernetes-embedded-resource": True}, {},
         ["spec.x.apiVersion: Required value", "spec.x.kind: Required value"]),
    ],
)  # fmt: skip
def test_values_in_values(schema, value, found):
    assert invalid(schema, value) == found


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({**STRING, "nullable": True}, None),
        ({"x-kubernetes-int-or-string": True}, "80%"),
        ({**STRING, "format": "date-time"}, "2025-03-01T12:00:00Z"),
        ({**STRING, "format": "nobody-knows"}, "x"),
        ({**STRING, "pattern": "b"}, "abc"),
    ],
)
def test_values_that_are_right(schema, value):
    assert invalid(schema, value) == []


def ruled(rule, value, old=None, **schema):
    whole = {"type": "object", "properties": {"x": {**schema, "x-kubernetes-validations": [rule]}}}
    return findings(
        lambda errors: SchemaRules(whole).check({"x": value}, None if old is None else {"x": old}, "", errors)
    )


def test_a_rule_that_fails_says_so_in_its_own_words_or_in_its_text():
    low = {"properties": {"min": INTEGER, "max": INTEGER}}
    rule = {"rule": "self.min <= self.max"}
    assert ruled(rule, {"min": 1, "max": 2}, **low) == []
    assert ruled(rule, {"min": 3, "max": 2}, **low) == ["x: Invalid value: failed rule: self.min <= self.max"]
    assert ruled({**rule, "message": "too low"}, {"min": 3, "max": 2}, **low) == ["x: Invalid value: too low"]
    told = {"rule": "self != 'bob'", "messageExpression": "'no ' + self", "reason": "FieldValueForbidden"}
    assert ruled(told, "bob") == ["x: Forbidden: no bob"]


def test_a_rule_about_the_old_value_is_asked_only_where_there_is_one():
    rule = {"rule": "self == oldSelf", "message": "is immutable"}
    assert ruled(rule, "a") == ruled(rule, "a", "a") == []
    assert ruled(rule, "b", "a") == ['x: Invalid value: "b": is immutable']
    optional = {"rule": "oldSelf.hasValue() || self == 'new'", "optionalOldSelf": True}
    assert ruled(optional, "new") == ruled(optional, "b", "a") == []
    assert ruled(optional, "b") != []


def test_entries_of_a_list_with_keys_are_compared_with_those_of_the_same_key():
    item = {
        "type": "object",
        "properties": {"name": STRING, "v": {**INTEGER, "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]}},
    }
    schema = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": item}
    old = [{"name": "a", "v": 5}, {"name": "b", "v": 1}]
    new = [{"name": "b", "v": 2}, {"name": "a", "v": 4}, {"name": "c", "v": 0}]
    found = findings(lambda errors: SchemaRules(schema).check(new, old, "x", errors))
    assert found == ["x[1].v: Invalid value: 4: failed rule: self >= oldSelf"]


def test_names_that_cel_cannot_read_are_escaped():
    schema = {"properties": {"a-b": INTEGER, "namespace": STRING, "c.d": INTEGER}}
    rule = {"rule": "self.a__dash__b == 1 && self.__namespace__ == 'x' && self.c__dot__d == 2"}
    assert ruled(rule, {"a-b": 1, "namespace": "x", "c.d": 2}, **schema) == []


def test_a_rule_that_cannot_be_evaluated_fails():
    [told] = ruled({"rule": "self.a.b == 1"}, {"a": {}}, type="object")
    assert told.startswith("x: Invalid value: ") and told.endswith("evaluating rule: self.a.b == 1")


def test_formats_are_what_they_say():
    year = {"rule": "self.getFullYear() > 2020 && self < timestamp('2030-01-01T00:00:00Z')"}
    assert ruled(year, "2024-05-06T07:08:09Z", **STRING, format="date-time") == []
    assert ruled(year, "2020-01-01", **STRING, format="date") != []
    assert ruled({"rule": "self > duration('59s')"}, "1m", **STRING, format="duration") == []
    assert ruled({"rule": "self == b'abc'"}, "YWJj", **STRING, format="byte") == []


def test_what_goes_wrong_in_a_rule_is_told_with_the_type_of_the_value():
    """Source: the answers of apiextensions-apiserver, v1.36."""
    part = {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": INTEGER}}}}
    rule = {"rule": "self.a.b == 1"}
    assert ruled(rule, {}, **part) == ['x: Invalid value: "object": no such key: a evaluating rule: self.a.b == 1']
    told = {**rule, "message": "wrong", "reason": "FieldValueForbidden"}
    assert ruled(told, {}, **part) == ['x: Invalid value: "object": no such key: a evaluating rule: wrong']
    either = {"x-kubernetes-int-or-string": True}
    why = "'no such overload': call arguments did not match a supported operator, function or macro signature"
    assert ruled({"rule": "self + 5 > 3"}, "a", **either) == [f'x: Invalid value: "": {why} for rule: self + 5 > 3']
    again = {"rule": "self == 'a'", "reason": "FieldValueDuplicate", "message": "not told"}
    assert ruled(again, "b", **STRING) == ['x: Duplicate value: "b"']


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"messageExpression": "'no ' + self + string(1 / (self.size() - 1))"}, "failed rule: self == 'a'"),
        ({"messageExpression": "self + '\\n' + self", "message": "one line"}, "one line"),
        ({"messageExpression": "self.replace('b', 'c')"}, "c"),
        ({"messageExpression": "'%s is no %s'.format([self, 'a'])"}, "b is no a"),
    ],
)
def test_a_message_that_cannot_be_told_is_replaced_by_the_rules_own(rule, said):
    assert ruled({"rule": "self == 'a'", **rule}, "b", **STRING) == [f'x: Invalid value: "b": {said}']


CUBE = "self.all(a, self.all(b, self.all(c, a + b + c > 0)))"
NO_MORE = "no further validation rules will be run"


def numbers(count, rule=CUBE):
    """A schema of lists with a rule that looks at all triples, and a list."""
    return {"type": "array", "items": INTEGER, "x-kubernetes-validations": [{"rule": rule}]}, [*range(1, count + 1)]


def test_a_rule_may_cost_as_much_as_upstream_lets_it_and_no_more():
    """Source: what apiextensions-apiserver v1.36 says of these lists; the first costs 541,673 there."""
    schema, value = numbers(39)
    assert findings(lambda errors: SchemaRules(schema).check(value, None, "x", errors)) == []
    schema, value = numbers(99)
    why = (
        f"'operation cancelled: actual cost limit exceeded': {NO_MORE} due to call cost exceeds limit for rule: {CUBE}"
    )
    found = findings(lambda errors: SchemaRules(schema).check(value, None, "x", errors))
    assert found == [f'x: Invalid value: "array": {why}']


def test_the_rules_of_an_object_may_cost_so_much_together_and_no_more():
    """Source: what apiextensions-apiserver v1.36 says of these lists; each text costs 300,002 there."""
    text = {**STRING, "x-kubernetes-validations": [{"rule": "self.lowerAscii() != 'x'"}]}
    rules, value = SchemaRules({"type": "array", "items": text}), "x" * 3_000_000
    assert findings(lambda errors: rules.check([value] * 33, None, "texts", errors)) == []
    found = findings(lambda errors: rules.check([value] * 40, None, "texts", errors))
    why = f"validation failed due to running out of cost budget, {NO_MORE}"
    assert found == [f'texts[33]: Invalid value: "string": {why}']
