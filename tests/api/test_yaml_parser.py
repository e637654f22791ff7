"""What PyYAML's loader says of values that are not what their tags say."""

import pytest
import yaml

from berth.api.yaml_census import PARSER


@pytest.mark.parametrize("text", ["a: !!timestamp x", "a: !!bool x", "!!bool x"])
def test_it_is_an_error_of_yaml_with_a_line(text):
    with pytest.raises(yaml.MarkedYAMLError, match="not what its tag says") as told:
        yaml.load(text, Loader=PARSER)
    assert told.value.problem_mark.line == 0
