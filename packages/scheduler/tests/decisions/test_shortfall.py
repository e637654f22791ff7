"""What nodes lack, in numbers: each sentence speaks of the nodes that were rejected for it, and of no others."""

import random

import pytest

from berth.config.load import default_config
from berth.core.assembly import build_core
from berth.core.builders import make_node, make_pod
from berth.core.intake import ObjectEvent
from berth.core.options import CoreOptions
from berth.decisions.shortfall import shortfalls
from berth.plugins.registry import in_tree_registry


def node(name, memory, *, pods="110"):
    return make_node(name).capacity(cpu="8", memory=memory, pods=pods)


def sentences(pod, *objects, afterwards=()):
    """What is said of a pod that was tried, after what happens then."""
    core = build_core(default_config(), in_tree_registry(), CoreOptions(rng=random.Random(1)))
    for one in (*objects, pod):
        built = one.build()
        core.handle(ObjectEvent("ADDED", type(built).__name__, built), 0.0)
    core.step(1.0)
    decision = core.trace["default/model"]
    for one in afterwards:
        core.handle(ObjectEvent("ADDED", "Node", one.build()), 2.0)
    return [lack.sentence for lack in shortfalls(decision, core.cache.table, next(iter(core.profiles.values())))]


MODEL = make_pod("model").request(memory="20Gi")


@pytest.mark.parametrize("other", [node("big", "24Gi").unschedulable(), node("big", "24Gi").taint("team", "red")])
def test_a_node_with_more_that_something_else_rules_out_makes_no_sentence_untrue(other):
    said = sentences(MODEL, node("n1", "8Gi"), node("n2", "14Gi"), node("n3", "14Gi"), other)
    assert said == ["needs 20Gi memory; of the 3 nodes rejected for it, n2 has the most free: 14Gi of 14Gi"]


def test_a_single_node_is_said_to_be_the_only_one_rejected_for_it():
    said = sentences(MODEL, node("n1", "14Gi"), node("big", "24Gi").unschedulable())
    assert said == ["needs 20Gi memory; n1, the only node rejected for it, has 14Gi of 14Gi free"]


def test_a_node_that_is_large_enough_by_now_is_told():
    said = sentences(MODEL, node("n1", "14Gi"), afterwards=[node("n1", "32Gi")])
    assert said == ["needs 20Gi memory; n1, the only node rejected for it, has 32Gi of 32Gi free; that would do now"]


def test_room_for_pods_is_counted_in_pods():
    running = [make_pod(f"web-{i}").node(f"n{i}") for i in (1, 2)]
    said = sentences(make_pod("model"), node("n1", "8Gi", pods="1"), node("n2", "8Gi", pods="1"), *running)
    assert said == ["needs room for one more pod; of the 2 nodes rejected for it, n1 has the most free: 0 of 1"]
    said = sentences(make_pod("model"), node("n1", "8Gi", pods="1"), running[0])
    assert said == ["needs room for one more pod; n1, the only node rejected for it, has 0 of 1 free"]
