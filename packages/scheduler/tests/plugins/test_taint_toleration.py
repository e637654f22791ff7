"""TaintToleration: filtering, scoring and hints, against the behaviour documented upstream."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.core.builders import make_node, make_pod
from berth.framework.events import Action, QueueingHint
from berth.plugins.taint_toleration import TaintToleration
from packages.scheduler.tests.plugins.support import (
    filtered,
    handle_of,
    hint,
    normalized,
    pre_scored,
    raw_scores,
    registered,
)

REASON = "node(s) had untolerated taint(s)"


def cluster(*nodes, gates=None):
    return handle_of(*(node.build() for node in nodes), gates=gates)


CLUSTER = cluster(
    make_node("free"),
    make_node("gpu").taint("gpu", "a100"),
    make_node("failing").taint("broken", effect="NoExecute"),
    make_node("meh").taint("meh", effect="PreferNoSchedule"),
    make_node("both").taint("gpu", "a100").taint("broken", effect="NoExecute"),
)
PLUGIN = TaintToleration(None, CLUSTER)


@pytest.mark.parametrize(
    ("pod", "rejected"),
    [
        (make_pod(), {"gpu", "failing", "both"}),
        (make_pod().tolerate("gpu", "a100"), {"failing", "both"}),
        (make_pod().tolerate("gpu", "h100"), {"gpu", "failing", "both"}),
        (make_pod().tolerate("broken"), {"gpu", "both"}),
        (make_pod().tolerate("broken", effect="NoSchedule"), {"gpu", "failing", "both"}),
        (make_pod().tolerate("gpu").tolerate("broken"), set()),
        (make_pod().tolerate(), set()),
        (make_pod().tolerate(effect="NoExecute"), {"gpu", "both"}),
    ],
)
def test_nodes_keep_off_pods_that_do_not_tolerate_their_taints(pod, rejected):
    found = filtered(PLUGIN, pod.info(), CLUSTER)
    assert found == {name: REASON if name in rejected else None for name in found}


SOFT = cluster(
    make_node("none"),
    make_node("one").taint("a", effect="PreferNoSchedule"),
    make_node("two").taint("a", effect="PreferNoSchedule").taint("b", effect="PreferNoSchedule"),
    make_node("hard").taint("a").taint("b"),
)


@pytest.mark.parametrize(
    ("pod", "counts", "scores"),
    [
        (make_pod(), [0, 1, 2, 0], [100, 50, 0, 100]),
        (make_pod().tolerate("a"), [0, 0, 1, 0], [100, 100, 0, 100]),
        (make_pod().tolerate("a", effect="PreferNoSchedule"), [0, 0, 1, 0], [100, 100, 0, 100]),
        (make_pod().tolerate("a", effect="NoSchedule"), [0, 1, 2, 0], [100, 50, 0, 100]),
        (make_pod().tolerate(), [0, 0, 0, 0], [100, 100, 100, 100]),
    ],
)
def test_the_fewer_soft_taints_the_better(pod, counts, scores):
    assert list(raw_scores(PLUGIN, pod.info(), SOFT).values()) == counts
    assert list(normalized(PLUGIN, pod.info(), SOFT).values()) == scores
    assert pre_scored(PLUGIN, pod.info(), SOFT) is None


def test_numbers_are_compared_where_the_gate_is_on():
    nodes = (make_node("950").taint("sla", "950"), make_node("800").taint("sla", "800"))
    pod = make_pod().tolerate("sla", "900", operator="Gt").info()
    off, on = cluster(*nodes), cluster(*nodes, gates={"TaintTolerationComparisonOperators": True})
    assert filtered(TaintToleration(None, off), pod, off) == {"950": REASON, "800": REASON}
    assert filtered(TaintToleration(None, on), pod, on) == {"950": None, "800": REASON}


GPU = make_pod("p").tolerate("gpu")
FREE, TAINTED, BROKEN = make_node(), make_node().taint("gpu"), make_node().taint("broken", effect="NoExecute")
SOFTLY = make_node().taint("broken", effect="PreferNoSchedule")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, FREE, QueueingHint.QUEUE),
        (None, TAINTED, QueueingHint.QUEUE),
        (None, BROKEN, QueueingHint.SKIP),
        (BROKEN, FREE, QueueingHint.QUEUE),
        (BROKEN, TAINTED, QueueingHint.QUEUE),
        (BROKEN, SOFTLY, QueueingHint.QUEUE),
        (FREE, TAINTED, QueueingHint.SKIP),
        (TAINTED, FREE, QueueingHint.SKIP),
        (FREE, BROKEN, QueueingHint.SKIP),
    ],
)
def test_a_node_that_became_tolerable_wakes(old, new, expected):
    before = None if old is None else old.build()
    assert hint(PLUGIN, "Node")(GPU.info(), before, new.build()) is expected


def test_the_pods_own_tolerations_wake():
    pod = make_pod("p").info()
    assert hint(PLUGIN, "Pod")(pod, pod, GPU.info()) is QueueingHint.QUEUE
    assert hint(PLUGIN, "Pod")(pod, pod, make_pod("other").tolerate("gpu").info()) is QueueingHint.SKIP
    assert registered(PLUGIN) == {
        ("Node", Action.ADD | Action.UPDATE_NODE_TAINT),
        ("Pod", Action.UPDATE_POD_TOLERATION),
    }


KEYS, VALUES = st.sampled_from("abc"), st.sampled_from(["", "x", "y", "5"])
EFFECTS = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
TAINTS = st.lists(st.tuples(KEYS, VALUES, EFFECTS), max_size=3)
TOLERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["", "a", "b", "c"]),
        VALUES,
        st.sampled_from(["Equal", "Exists", "Gt"]),
        EFFECTS | st.just(""),
    ),
    max_size=3,
)


@given(st.lists(TAINTS, min_size=1, max_size=9), TOLERATIONS)
def test_both_forms_agree(taints_by_node, tolerations):
    nodes = []
    for index, taints in enumerate(taints_by_node):
        node = make_node(f"n{index}")
        for key, value, effect in taints:
            node.taint(key, value, effect)
        nodes.append(node)
    pod = make_pod()
    for key, value, operator, effect in tolerations:
        pod.tolerate(key, value, operator=operator, effect=effect)
    small = cluster(*nodes)
    plugin = TaintToleration(None, small)
    filtered(plugin, pod.info(), small)
    raw_scores(plugin, pod.info(), small)
