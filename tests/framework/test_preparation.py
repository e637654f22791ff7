"""Plugins are asked as often as their answer may have changed, and no more."""

import pytest

from berth.framework.status import SKIP
from berth.testing.builders import make_service
from tests.engine import cluster, document, node, plugin, pod

PODS = 5
A_SERVICE_COMES_BEFORE = 3


def times_asked(point, version=None, cpu="100m", **declared):
    """Return how often a plugin that skips has been asked after each of some pods; `cpu` may count them: "{}m"."""
    if version is not None:
        declared[f"{point}_version"] = lambda pod: version(skipping.handle.objects)
    skipping = plugin("Skipping", **{point: lambda *_: SKIP}, **declared)
    found = cluster(node("a", "64"), node("b", "64"), config=document("Skipping"), plugins={"Skipping": skipping})
    counts = []
    for number in range(PODS):
        if number == A_SERVICE_COMES_BEFORE:
            found.put(make_service("s", {"app": "other"}))
        found.put(pod(f"p{number}", cpu.format(100 + number)))
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
@pytest.mark.parametrize(("kind", "counts"), [("Service", [1, 2, 2, 3, 3]), ("DeviceClass", [1, 2, 2, 2, 2])])
def test_a_plugin_with_a_version_is_asked_again_when_that_has_changed(point, kind, counts):
    assert times_asked(point, lambda objects: objects.version(kind)) == counts


@pytest.mark.parametrize("point", ["pre_filter", "pre_score"])
@pytest.mark.parametrize("ignores_requests", [False, True])
def test_pods_that_differ_in_what_they_request_share_the_answer_of_a_plugin_that_ignores_requests(
    point, ignores_requests
):
    counts = [1, 2, 2, 2, 2] if ignores_requests else [1, 2, 3, 4, 5]
    declared = {f"{point}_is_pure": True, "ignores_requests": ignores_requests}
    assert times_asked(point, cpu="{}m", **declared) == counts


@pytest.mark.parametrize(("ignores_requests", "counts"), [(False, [1, 2, 3, 4, 5]), (True, [1, 2, 2, 3, 3])])
def test_they_share_it_until_the_version_changes(ignores_requests, counts):
    version, declared = lambda objects: objects.version("Service"), {"ignores_requests": ignores_requests}
    assert times_asked("pre_filter", version, cpu="{}m", **declared) == counts


def test_a_version_of_none_promises_nothing():
    assert times_asked("pre_filter", lambda objects: None) == [1, 2, 3, 4, 5]


def test_a_plugin_that_is_idle_after_skipping_is_not_told_of_the_binding():
    methods = {"pre_filter": lambda *_: SKIP, "reserve": lambda *_: None, "unreserve": lambda *_: None}
    for idle in (True, False):
        skipping = plugin("Skipping", **methods, pre_bind=lambda *_: None, idle_after_skip=idle)
        found = cluster(node("a", "64"), config=document("Skipping"), plugins={"Skipping": skipping})
        found.put(pod("p"))
        found.run()
        assert [call for call in skipping.calls if call != "pre_filter"] == ([] if idle else ["reserve", "pre_bind"])
