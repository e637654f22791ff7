"""What PyYAML's loader says of values that are not what their tags say, and of keys that are there twice."""

import pytest
import yaml

from berth.api.yaml_census import PARSER, STRICT_PARSER


@pytest.mark.parametrize("text", ["a: !!timestamp x", "a: !!bool x", "!!bool x"])
def test_it_is_an_error_of_yaml_with_a_line(text):
    with pytest.raises(yaml.MarkedYAMLError, match="not what its tag says") as told:
        yaml.load(text, Loader=PARSER)
    assert told.value.problem_mark.line == 0


TWICE = {
    "in the document": "a: 1\nb: 2\na: 3",
    "further down": "x:\n- y: {a: 1,\n   a: 2}",
    "with another tag": "a: 1\n\n!!str a: 2",
}


@pytest.mark.parametrize("text", TWICE.values(), ids=TWICE)
def test_a_key_that_is_there_twice_is_told_with_its_line_to_those_who_are_strict(text):
    assert yaml.load(text, Loader=PARSER)
    with pytest.raises(yaml.MarkedYAMLError, match="a is given twice") as told:
        yaml.load(text, Loader=STRICT_PARSER)
    assert told.value.problem_mark.line == text.rstrip("}").count("\n")


@pytest.mark.parametrize(
    "text",
    [
        "- &one {a: 1}\n- &two {<<: *one, a: 2}\n- {<<: *two, a: 3, b: {<<: *two}}",
        "deep: {deeper: &base {<<: {a: 1}, a: 2}}\nnear: {<<: *base, a: 3}",
        "- &same {a: 1}\n- *same\n- *same",
        "- {a: 1}\n- {a: 2}",
        "",
    ],
)
def test_what_is_merged_or_stands_elsewhere_is_no_second_time(text):
    assert yaml.load(text, Loader=STRICT_PARSER) == yaml.load(text, Loader=PARSER)
