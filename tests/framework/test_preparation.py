"""Plugins are asked as often as their answer may have changed, and no more."""

import pytest

from berth.framework.status import SKIP
from tests.engine import cluster, document, node, plugin, pod

PODS = 5


def times_asked(point, before=lambda number: None, **declared):
    """Return how often a plugin that skips has been asked after each of some replicas of one workload."""
    skipping = plugin("Skipping", **{point: lambda *_: SKIP}, **declared)
    found = cluster(node("a", "64"), node("b", "64"), config=document("Skipping"), plugins={"Skipping": skipping})
    counts = []
    for number in range(PODS):
        before(number)
        found.put(pod(f"p{number}"))
        found.run()
        counts.append(skipping.calls.count(point))
    return counts


@pytest.mark.parametrize("point", ["pre_filter", "pre_score"])
def test_a_plugin_that_declares_nothing_is_asked_about_every_pod(point):
    assert times_asked(point) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("point", ["pre_filter", "pre_score"])
def test_a_pure_plugin_is_asked_until_the_shape_is_known_to_come_again(point):
    assert times_asked(point, **{f"{point}_is_pure": True}) == [1, 2, 2, 2, 2]


@pytest.mark.parametrize("point", ["pre_filter", "pre_score"])
def test_a_plugin_with_a_version_is_asked_again_when_that_has_changed(point):
    world = {"version": 1}

    def before(number):
        world["version"] += number == 3

    version = {f"{point}_version": lambda pod: world["version"]}
    assert times_asked(point, before, **version) == [1, 2, 2, 3, 3]


def test_a_version_of_none_promises_nothing():
    assert times_asked("pre_filter", pre_filter_version=lambda pod: None) == [1, 2, 3, 4, 5]
