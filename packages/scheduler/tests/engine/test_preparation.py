"""Plugins are asked as often as their answer may have changed, and no more."""

import pytest

from berth.core.builders import make_service
from berth.framework.status import SKIP
from berth.state.pod_info import LABELS, REQUESTS
from packages.scheduler.tests.support import cluster, document, node, plugin, pod

PODS = 5
A_SERVICE_COMES_BEFORE = 3


def times_asked(point, version=None, differ_in=(), **declared):
    """Return how often a plugin that skips has been asked after each of some pods."""
    if version is not None:
        declared |= {f"{point}_version": lambda pod: version(skipping.handle.objects), f"{point}_has_version": True}
    skipping = plugin("Skipping", **{point: lambda *_: SKIP}, **declared)
    found = cluster(node("a", "64"), node("b", "64"), config=document("Skipping"), plugins={"Skipping": skipping})
    counts = []
    for number in range(PODS):
        if number == A_SERVICE_COMES_BEFORE:
            found.put(make_service("s", {"app": "other"}))
        one = pod(f"p{number}", f"{100 + number}m" if REQUESTS in differ_in else "100m")
        found.put(one.label("index", str(number) if LABELS in differ_in else "same"))
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


REPLICA, LIKE_NO_OTHER = [1, 2, 2, 2, 2], [1, 2, 3, 4, 5]


@pytest.mark.parametrize("point", ["pre_filter", "pre_score"])
@pytest.mark.parametrize(
    ("differ_in", "ignores", "counts"),
    [
        ({REQUESTS}, set(), LIKE_NO_OTHER),
        ({REQUESTS}, {LABELS}, LIKE_NO_OTHER),
        ({REQUESTS}, {REQUESTS}, REPLICA),
        ({LABELS}, {LABELS}, LIKE_NO_OTHER),  # families are of requests, and of both
        ({LABELS}, {REQUESTS, LABELS}, REPLICA),
        ({REQUESTS, LABELS}, {REQUESTS}, LIKE_NO_OTHER),
        ({REQUESTS, LABELS}, {REQUESTS, LABELS}, REPLICA),
    ],
)
def test_pods_that_differ_in_what_a_plugin_ignores_share_its_answer(point, differ_in, ignores, counts):
    declared = {f"{point}_is_pure": True, "ignores": frozenset(ignores)}
    assert times_asked(point, differ_in=differ_in, **declared) == counts


@pytest.mark.parametrize(("ignores", "counts"), [(set(), LIKE_NO_OTHER), ({REQUESTS}, [1, 2, 2, 3, 3])])
def test_they_share_it_until_the_version_changes(ignores, counts):
    version = lambda objects: objects.version("Service")  # noqa: E731
    assert times_asked("pre_filter", version, differ_in={REQUESTS}, ignores=frozenset(ignores)) == counts


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
