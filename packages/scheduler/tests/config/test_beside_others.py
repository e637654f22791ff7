"""Shadows and canaries in a configuration: read, checked, and written again.

Expectations are those of docs/living-with-plugins.md.
"""

import pytest

from berth.config.dump import dump_config
from berth.config.errors import ConfigError
from berth.config.load import load_config
from berth.config.types import Canary, Shadow
from berth.recording.configs import config_of, plain_config
from packages.scheduler.tests.config.documents import v1_document

SELECTOR = {
    "matchLabels": {"team": "red"},
    "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["db"]}],
}


def loaded(*beside):
    profiles = [{"schedulerName": f"beside-{number}", **each} for number, each in enumerate(beside)]
    return load_config(v1_document(profiles=[{"schedulerName": "a"}, *profiles]))


def test_they_are_read_and_written_again():
    config = loaded(
        {"shadow": {"of": "a"}},
        {"shadow": {"of": "a", "percentage": 0.5}},
        {"canary": {"of": "a", "percentage": 7}},
        {"canary": {"of": "a", "selector": SELECTOR}},
    )
    beside = config.profiles[1:]
    assert [each.shadow for each in beside] == [Shadow("a", 100.0), Shadow("a", 0.5), None, None]
    assert [each.canary and each.canary.percentage for each in beside] == [None, None, 7.0, None]
    assert isinstance(beside[3].canary, Canary)
    assert load_config(dump_config(config)).profiles[1:][3].canary == beside[3].canary
    written = dump_config(config)["profiles"]
    assert [each.get("shadow") for each in written[1:3]] == [
        {"of": "a", "percentage": 100},
        {"of": "a", "percentage": 0.5},
    ]
    assert written[4]["canary"] == {"of": "a", "selector": SELECTOR}
    assert [(each.shadow, each.canary) for each in config_of(plain_config(config)).profiles] == [
        (each.shadow, each.canary) for each in config.profiles
    ]


@pytest.mark.parametrize(
    ("beside", "complaint"),
    [
        ([{"shadow": {"of": "b"}}], 'profiles[1].shadow.of: Invalid value: "b": must be the schedulerName'),
        ([{"shadow": {"of": "beside-0"}}], "that is neither shadow nor canary"),
        ([{"shadow": {"of": "a"}}, {"canary": {"of": "beside-0", "percentage": 1}}], "profiles[2].canary.of"),
        ([{"shadow": {"of": "a"}, "canary": {"of": "a", "percentage": 5}}], "a shadow or a canary, not both"),
        ([{"shadow": {"of": "a", "percentage": 0}}], "must be above 0 and at most 100"),
        ([{"canary": {"of": "a", "percentage": 101}}], "must be above 0 and at most 100"),
        ([{"canary": {"of": "a"}}], "either percentage or selector"),
        ([{"canary": {"of": "a", "percentage": 5, "selector": {}}}], "either percentage or selector"),
        (
            [{"canary": {"of": "a", "percentage": 60}}, {"canary": {"of": "a", "percentage": 41}}],
            "more than 100 percent",
        ),
        (
            [{"canary": {"of": "a", "selector": {"matchExpressions": [{"key": "x", "operator": "Near"}]}}}],
            "'Near' is not a valid label selector operator",
        ),
        ([{"shadow": {"percentage": 5}}], "profiles[1].shadow.of: Required value"),
        ([{"canary": {"of": "a", "percent": 5}}], 'unknown field "percent"; did you mean percentage?'),
    ],
)
def test_what_makes_no_sense_is_refused(beside, complaint):
    with pytest.raises(ConfigError) as refused:
        loaded(*beside)
    assert complaint in str(refused.value)
