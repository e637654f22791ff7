"""Pods that could be misplaced wait for what is not known yet; all others are never in the way."""

from berth.core.builders import make_pod
from berth.kube.changes import Added, Deleted, Modified
from berth.runtime.held_pods import DEVICE_KINDS, VOLUME_KINDS, HeldPods


class Case:
    def __init__(self, *unsettled, holds_extended=False):
        self.unsettled = list(unsettled)
        self.held = HeldPods(lambda: self.unsettled, holds_extended=holds_extended)


def with_claim(name="db"):
    return make_pod(name).claim("data").build()


def test_builders_make_what_these_tests_mean():
    assert with_claim().spec.volumes and not make_pod("web").build().spec.volumes


def test_a_pod_with_a_volume_waits_for_every_kind_of_volume_binding():
    plain = make_pod("web").build()
    for kind in VOLUME_KINDS:
        case = Case(kind, "Service")
        assert case.held.passed([Added(plain), Added(with_claim())]) == [Added(plain)]
        assert len(case.held) == 1 and case.held.waits_for() == {kind: 1}
        case.unsettled = ["Service"]
        assert case.held.released() == [Added(with_claim())] and len(case.held) == 0
        assert case.held.released() == []


def test_a_pod_with_devices_waits_for_what_says_which_are_taken():
    claimed = make_pod("gpu").resource_claim("c", claim_name="c").build()
    for kind in DEVICE_KINDS:
        assert Case(kind).held.passed([Added(claimed)]) == []
    assert Case("PersistentVolume").held.passed([Added(claimed)]) == [Added(claimed)]


def test_extended_resources_wait_only_where_they_may_be_devices():
    asking = make_pod("gpu").request({"example.com/gpu": "1"}).build()
    assert Case("DeviceClass").held.passed([Added(asking)]) == [Added(asking)]
    assert Case("DeviceClass", holds_extended=True).held.passed([Added(asking)]) == []


def test_pods_with_a_node_and_pods_that_are_known_pass():
    bound = make_pod("db").claim("data").node("n1").build()
    case = Case("PersistentVolume")
    assert case.held.passed([Added(bound)]) == [Added(bound)]
    known = [Modified(with_claim(), with_claim())]
    assert case.held.passed(known) == known


def test_a_held_pod_that_changes_goes_or_gets_a_node():
    case = Case("PersistentVolume")
    bound = make_pod("db").claim("data").node("n1").build()
    newer = make_pod("db").claim("data").label("a", "b").build()
    case.held.passed([Added(with_claim())])
    assert case.held.passed([Modified(newer, with_claim())]) == []
    assert case.held.passed([Modified(bound, newer)]) == [Added(bound)], "the core hears of it for the first time"
    case.held.passed([Added(with_claim("other"))])
    assert case.held.passed([Deleted(with_claim("other"))]) == [] and len(case.held) == 0
    assert case.held.passed([Deleted(with_claim("third"))]) == [Deleted(with_claim("third"))]


def test_the_newest_state_is_released():
    case = Case("PersistentVolume")
    newer = make_pod("db").claim("data").label("a", "b").build()
    case.held.passed([Added(with_claim()), Modified(newer, with_claim())])
    case.unsettled = []
    assert case.held.released() == [Added(newer)]
