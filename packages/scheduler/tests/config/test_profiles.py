"""All profiles expanded together: faults of every profile, and one order for the one queue."""

import pytest

from berth.config.errors import ConfigError
from berth.config.load import default_config, load_config
from berth.config.profiles import resolve_profiles
from berth.config.types import ExtensionPoint
from packages.scheduler.tests.config.documents import IN_TREE, names, v1_document

POINT = ExtensionPoint
SORTS = {**IN_TREE, "OtherSort": frozenset({POINT.QUEUE_SORT})}
BY_MULTI_POINT = {"multiPoint": {"enabled": names("OtherSort"), "disabled": names("PrioritySort")}}


def test_default_profile():
    resolved = resolve_profiles(default_config(), IN_TREE)
    assert list(resolved) == ["default-scheduler"]
    assert resolved["default-scheduler"][POINT.QUEUE_SORT] == (("PrioritySort", 0),)


def test_queue_sorts_may_not_differ_even_through_multi_point():
    config = load_config(
        v1_document(profiles=[{"schedulerName": "a"}, {"schedulerName": "b", "plugins": BY_MULTI_POINT}])
    )
    with pytest.raises(ConfigError) as caught:
        resolve_profiles(config, SORTS)
    assert str(caught.value) == (
        'profiles[1].plugins.queueSort: Invalid value: "OtherSort": '
        'different queue sort plugins for profile "b": "OtherSort", first: "PrioritySort"'
    )


def test_queue_sort_args_may_not_differ_either():
    profiles = [
        {
            "schedulerName": name,
            "plugins": BY_MULTI_POINT,
            "pluginConfig": [{"name": "OtherSort", "args": {"by": name}}],
        }
        for name in ("a", "b")
    ]
    config = load_config(v1_document(profiles=profiles))
    with pytest.raises(ConfigError, match='different queue sort plugin args for profile "b"'):
        resolve_profiles(config, SORTS)


def test_faults_of_all_profiles_are_reported():
    profiles = [{"schedulerName": name, "plugins": {"filter": {"enabled": names("Nope")}}} for name in ("a", "b")]
    with pytest.raises(ConfigError) as caught:
        resolve_profiles(load_config(v1_document(profiles=profiles)), IN_TREE)
    assert [error.split(":")[0] for error in caught.value.errors] == [
        "profiles[0].plugins.filter.enabled",
        "profiles[1].plugins.filter.enabled",
    ]
