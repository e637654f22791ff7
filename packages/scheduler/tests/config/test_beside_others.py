"""Shadows in a configuration: read, checked, and written again.

Expectations are those of docs/living-with-plugins.md.
"""

import pytest

from berth.config.dump import dump_config
from berth.config.errors import ConfigError
from berth.config.load import load_config
from berth.config.types import Shadow
from berth.recording.configs import config_of, plain_config
from packages.scheduler.tests.config.documents import v1_document


def loaded(*shadows):
    profiles = [{"schedulerName": f"beside-{number}", "shadow": shadow} for number, shadow in enumerate(shadows)]
    return load_config(v1_document(profiles=[{"schedulerName": "a"}, *profiles]))


def test_they_are_read_and_written_again():
    config = loaded({"of": "a"}, {"of": "a", "percentage": 0.5})
    assert [each.shadow for each in config.profiles] == [None, Shadow("a", 100.0), Shadow("a", 0.5)]
    written = dump_config(config)
    assert [each.get("shadow") for each in written["profiles"]] == [
        None,
        {"of": "a", "percentage": 100},
        {"of": "a", "percentage": 0.5},
    ]
    for again in (load_config(written), config_of(plain_config(config))):
        assert [each.shadow for each in again.profiles] == [each.shadow for each in config.profiles]


@pytest.mark.parametrize(
    ("shadows", "complaint"),
    [
        ([{"of": "b"}], 'profiles[1].shadow.of: Invalid value: "b": must be the schedulerName'),
        ([{"of": "beside-0"}], "of a profile that is no shadow"),
        ([{"of": "a", "percentage": 0}], "profiles[1].shadow.percentage: Invalid value"),
        ([{"of": "a", "percentage": 101}], "must be above 0 and at most 100"),
        ([{"percentage": 5}], "profiles[1].shadow.of: Required value"),
        ([{"of": "a", "percent": 5}], 'unknown field "percent"; did you mean percentage?'),
    ],
)
def test_what_makes_no_sense_is_refused(shadows, complaint):
    with pytest.raises(ConfigError) as refused:
        loaded(*shadows)
    assert complaint in str(refused.value)
