"""A node that is not found (pkg/scheduler/factory.go, MakeDefaultErrorFunc, release-1.20)."""

import pytest

from berth.cycle.failure import missing_node
from berth.framework.effects import ApiCall
from berth.testing.invariants import check
from packages.scheduler.tests.support import cluster, node, pod

NOT_FOUND = 'nodes "n1" not found'


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (NOT_FOUND, "n1"),
        ('binding rejected: node "a.b" not found', "a.b"),
        ('pods "n1" not found', None),
        ("0/1 nodes are available: 1 Insufficient cpu.", None),
    ],
)
def test_which_errors_speak_of_a_missing_node(message, name):
    assert missing_node(message) == name


def failed_binding(generation):
    found = cluster(node(), pod("a"), generation=generation)
    found.answers_binds = False
    found.run()
    (binding,) = found.requests
    found.answer(binding, error=NOT_FOUND)
    return found


@pytest.mark.parametrize(
    ("said", "is_kept"), [(NOT_FOUND, False), ("", True), ("connection refused", True)], ids=["gone", "there", "?"]
)
def test_the_node_leaves_the_cache_if_the_api_server_does_not_know_it_either(said, is_kept):
    found = failed_binding("v1.20")
    (asking,) = found.requests
    assert asking.effect == ApiCall("get", "Node", "", "n1")
    assert len(found.core.cache.table) == 1, "nothing happens before the answer"
    found.answer(asking, error=said)
    assert len(found.core.cache.table) == is_kept
    check(found.core)
    found.put(node())
    found.answers_binds = True
    found.advance(90.0)
    assert found.pod("a").spec.node_name == "n1", "and comes back when the watch brings it"


def test_todays_generation_leaves_nodes_to_the_watch():
    assert failed_binding("v1.36").requests == []


def test_a_node_that_is_not_cached_is_not_asked_for():
    found = cluster(node(), pod("a"), generation="v1.20")
    found.answers_binds = False
    found.run()
    found.delete("Node", "n1")
    found.answer(found.requests[0], error=NOT_FOUND)
    assert found.requests == []
