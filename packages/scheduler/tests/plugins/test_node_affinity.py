"""NodeAffinity: demands, narrowing, preferences, added affinity and hints, against the behaviour upstream."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.config.errors import ConfigError
from berth.config.plugin_args import decode_plugin_args
from berth.core.builders import expression, make_node, make_pod
from berth.framework.cycle_state import CycleState
from berth.framework.events import Action, QueueingHint
from berth.framework.interface import PreFilterResult
from berth.framework.status import SKIP, Code, unresolvable
from berth.plugins.node_affinity import NodeAffinityArgs, NodeAffinityPlugin
from packages.scheduler.tests.plugins.support import (
    filtered,
    handle_of,
    hint,
    normalized,
    pre_scored,
    raw_scores,
    registered,
)

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
POD = "node(s) didn't match Pod's node affinity/selector"
ENFORCED = "node(s) didn't match scheduler-enforced node affinity"

CLUSTER = handle_of(
    make_node("a1").label("zone", "a").label("cores", "8").build(),
    make_node("a2").label("zone", "a").label("cores", "64").build(),
    make_node("b1").label("zone", "b").label("cores", "many").build(),
    make_node("none").build(),
    make_node("empty").label("zone", "").build(),
)
ALL = {"a1", "a2", "b1", "none", "empty"}


def plugin_with(**added):
    args = {"addedAffinity": added} if added else {}
    return NodeAffinityPlugin(decode_plugin_args("NodeAffinity", args, NodeAffinityArgs, "args"), CLUSTER)


PLUGIN = plugin_with()


def name(operator, *names):
    return expression("metadata.name", operator, *names)


def named(*names, operator="In"):
    return [name(operator, *names)]


@pytest.mark.parametrize(
    ("pod", "allowed"),
    [
        (make_pod().node_selector({"zone": "a"}), {"a1", "a2"}),
        (make_pod().node_selector({"zone": "a", "cores": "8"}), {"a1"}),
        (make_pod().node_selector({"zone": "nowhere"}), set()),
        (make_pod().node_selector({"zone": ""}), {"empty"}),
        (make_pod().require_node(expression("zone", "In", "a", "b")), {"a1", "a2", "b1"}),
        (make_pod().require_node(expression("zone", "In", "a", "never-seen")), {"a1", "a2"}),
        (make_pod().require_node(expression("zone", "NotIn", "a", "b")), {"none", "empty"}),
        (make_pod().require_node(expression("zone", "NotIn", "never-seen")), ALL),
        (make_pod().require_node(expression("zone", "Exists")), {"a1", "a2", "b1", "empty"}),
        (make_pod().require_node(expression("zone", "DoesNotExist")), {"none"}),
        (make_pod().require_node(expression("cores", "Gt", "8")), {"a2"}),
        (make_pod().require_node(expression("cores", "Lt", "64")), {"a1"}),
        (make_pod().require_node(expression("zone", "In", "a"), expression("cores", "Gt", "8")), {"a2"}),
        (
            make_pod().require_node(expression("cores", "Gt", "8")).require_node(expression("zone", "In", "b")),
            {"a2", "b1"},
        ),
        (make_pod().require_node(fields=named("a1")), {"a1"}),
        (make_pod().require_node(fields=named("gone")), set()),
        (make_pod().require_node(fields=named("a1", operator="NotIn")), ALL - {"a1"}),
        (make_pod().require_node(expression("zone", "In", "a"), fields=named("b1")), set()),
        (make_pod().require_node(expression("zone", "In", "a")).node_selector({"cores": "64"}), {"a2"}),
        (make_pod().require_node(), set()),
        (make_pod().require_node().require_node(expression("zone", "In", "b")), {"b1"}),
        (make_pod().require_node(expression("zone", "Near", "a")), set()),
        (make_pod().require_node(expression("zone", "NotIn", "no value!")), set()),
        (make_pod().require_node(expression("zone", "Near", "a")).require_node(expression("zone", "In", "b")), {"b1"}),
        (make_pod().require_node(expression("zone", "In", "a"), expression("cores", "Gt", "x")), set()),
        (make_pod().require_node(fields=named("a1", "a2")), set()),
        (make_pod().prefer_node(1, expression("zone", "In", "a")), ALL),
        (make_pod(), ALL),
    ],
)
def test_nodes_a_pod_may_use(pod, allowed):
    found = filtered(PLUGIN, pod.info(), CLUSTER)
    assert found == {node: None if node in allowed else POD for node in ALL}


def required(*expressions):
    return {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}


def test_added_affinity_holds_for_every_pod_and_is_looked_at_first():
    plugin = plugin_with(requiredDuringSchedulingIgnoredDuringExecution=required(expression("zone", "In", "a")))
    pod = make_pod().node_selector({"cores": "8"}).info()
    assert filtered(plugin, pod, CLUSTER) == {
        "a1": None,
        "a2": POD,
        "b1": ENFORCED,
        "none": ENFORCED,
        "empty": ENFORCED,
    }
    assert plugin.pre_filter(CycleState(), make_pod().info()) is None


@pytest.mark.parametrize(
    ("pod", "answer"),
    [
        (make_pod(), SKIP),
        (make_pod().prefer_node(1, expression("zone", "In", "a")), SKIP),
        (make_pod().node_selector({"zone": "a"}), None),
        (make_pod().require_node(expression("zone", "In", "a")), None),
        (make_pod().require_node(fields=named("a1")), PreFilterResult(frozenset({"a1"}))),
        (make_pod().require_node(fields=named("gone")), PreFilterResult(frozenset({"gone"}))),
        (
            make_pod().require_node(fields=named("a1")).require_node(fields=named("b1")),
            PreFilterResult(frozenset({"a1", "b1"})),
        ),
        (make_pod().require_node(expression("x", "Exists"), fields=named("a1")), PreFilterResult(frozenset({"a1"}))),
        (make_pod().require_node(fields=named("a1")).require_node(expression("zone", "In", "a")), None),
        (make_pod().require_node(fields=named("a1", operator="NotIn")), None),
        (
            make_pod().require_node(fields=[name("In", "a1"), name("In", "b1")]),
            unresolvable("pod affinity terms conflict"),
        ),
        (
            make_pod().require_node(fields=[name("In", "a1"), name("In", "b1")]).require_node(fields=named("a2")),
            PreFilterResult(frozenset({"a2"})),
        ),
        (
            make_pod().require_node(fields=[name("In", "a1"), name("NotIn", "a1")]),
            PreFilterResult(frozenset({"a1"})),
        ),
    ],
)
def test_the_search_is_narrowed_to_named_nodes(pod, answer):
    assert PLUGIN.pre_filter(CycleState(), pod.info()) == answer


def test_a_selector_without_terms_matches_nothing_and_narrows_nothing():
    pod = make_pod()
    pod.set_spec(
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
    )
    assert PLUGIN.pre_filter(CycleState(), pod.info()) is None
    assert set(filtered(PLUGIN, pod.info(), CLUSTER).values()) == {POD}


@pytest.mark.parametrize(
    ("pod", "raw", "scores"),
    [
        (make_pod().prefer_node(10, expression("zone", "In", "a")), [10, 10, 0, 0, 0], [100, 100, 0, 0, 0]),
        (
            make_pod().prefer_node(10, expression("zone", "In", "a")).prefer_node(5, expression("cores", "Gt", "8")),
            [10, 15, 0, 0, 0],
            [66, 100, 0, 0, 0],
        ),
        (make_pod().prefer_node(3, fields=named("b1")), [0, 0, 3, 0, 0], [0, 0, 100, 0, 0]),
        (make_pod().prefer_node(0, expression("zone", "In", "a")), [0] * 5, [0] * 5),
        (make_pod().prefer_node(7), [0] * 5, [0] * 5),
    ],
)
def test_preferences_are_weighed(pod, raw, scores):
    assert list(raw_scores(PLUGIN, pod.info(), CLUSTER).values()) == raw
    assert list(normalized(PLUGIN, pod.info(), CLUSTER).values()) == scores
    assert pre_scored(PLUGIN, pod.info(), CLUSTER) is None


def test_added_preferences_count_for_every_pod():
    preferred = [{"weight": 4, "preference": {"matchExpressions": [expression("zone", "In", "b")]}}]
    plugin = plugin_with(preferredDuringSchedulingIgnoredDuringExecution=preferred)
    plain, own = make_pod().info(), make_pod().prefer_node(1, expression("zone", "Exists")).info()
    assert pre_scored(plugin, plain, CLUSTER) is None
    assert list(raw_scores(plugin, plain, CLUSTER).values()) == [0, 0, 4, 0, 0]
    assert list(raw_scores(plugin, own, CLUSTER).values()) == [1, 1, 5, 0, 1]


def test_pods_without_preferences_are_not_scored():
    assert pre_scored(PLUGIN, make_pod().info(), CLUSTER) is SKIP
    assert pre_scored(PLUGIN, make_pod().node_selector({"zone": "a"}).info(), CLUSTER) is SKIP


def test_preferences_that_cannot_be_read_fail_the_attempt_and_name_the_pod():
    status = pre_scored(PLUGIN, make_pod("p").prefer_node(1, expression("zone", "Near", "a")).info(), CLUSTER)
    assert status.code is Code.ERROR
    assert "default/p" in status.message and "Near" in status.message
    zero = make_pod().prefer_node(0, expression("zone", "Near", "a")).info()
    assert pre_scored(PLUGIN, zero, CLUSTER) is None


def test_pods_that_ask_alike_share_a_signature():
    def ask(zone):
        return make_pod(zone).node_selector({"x": "y"}).require_node(expression("zone", "In", zone)).info()

    assert PLUGIN.signature(ask("a")) == PLUGIN.signature(ask("a"))
    assert hash(PLUGIN.signature(ask("a"))) == hash(PLUGIN.signature(ask("a")))
    assert PLUGIN.signature(ask("a")) != PLUGIN.signature(ask("b"))
    assert PLUGIN.signature(ask("a")) != PLUGIN.signature(make_pod().node_selector({"x": "y"}).info())


IN_A, IN_B = make_node("n").label("zone", "a").build(), make_node("n").label("zone", "b").build()
WANTS_A = make_pod().require_node(expression("zone", "In", "a")).info()


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, IN_A, QueueingHint.QUEUE),
        (None, IN_B, QueueingHint.SKIP),
        (IN_B, IN_A, QueueingHint.QUEUE),
        (IN_A, IN_A, QueueingHint.SKIP),
        (IN_A, IN_B, QueueingHint.SKIP),
    ],
)
def test_a_node_that_came_to_match_wakes(old, new, expected):
    assert hint(PLUGIN, "Node")(WANTS_A, old, new) is expected
    assert registered(PLUGIN) == {("Node", Action.ADD | Action.UPDATE_NODE_LABEL)}


def test_a_node_outside_the_added_affinity_does_not_wake():
    plugin = plugin_with(requiredDuringSchedulingIgnoredDuringExecution=required(expression("zone", "In", "b")))
    assert hint(plugin, "Node")(WANTS_A, None, IN_A) is QueueingHint.SKIP
    assert hint(plugin, "Node")(make_pod().info(), IN_A, IN_B) is QueueingHint.QUEUE


@pytest.mark.parametrize(
    ("added", "place"),
    [
        (
            {"requiredDuringSchedulingIgnoredDuringExecution": required(expression("zone", "Near", "a"))},
            "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator",
        ),
        (
            {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "preference": {"matchExpressions": [expression("zone", "In")]}}
                ]
            },
            "preferredDuringSchedulingIgnoredDuringExecution[0].matchExpressions[0].values",
        ),
    ],
)
def test_added_affinity_that_cannot_be_read_is_refused(added, place):
    with pytest.raises(ConfigError) as raised:
        decode_plugin_args("NodeAffinity", {"addedAffinity": added}, NodeAffinityArgs, "args")
    assert raised.value.errors[0].startswith(f"args.addedAffinity.{place}:")


def test_added_affinity_without_terms_is_read_and_lets_no_node_pass():
    """nodeaffinity.NewNodeSelector accepts a selector without terms, and matches nothing by it."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
    plugin = plugin_with(**required)
    assert filtered(plugin, make_pod("p").info(), CLUSTER) == dict.fromkeys(ALL, ENFORCED)


KEYS, VALUES = st.sampled_from(["x", "y"]), st.sampled_from(["", "1", "2", "30", "b"])
SETS = st.builds(
    lambda k, o, v: expression(k, o, *v), KEYS, st.sampled_from(["In", "NotIn"]), st.lists(VALUES, max_size=3)
)
BARE = st.builds(expression, KEYS, st.sampled_from(["Exists", "DoesNotExist", "Near"]))
NUMBERS = st.builds(expression, KEYS, st.sampled_from(["Gt", "Lt"]), VALUES)
NAMES = st.builds(name, st.sampled_from(["In", "NotIn"]), st.sampled_from(["n0", "n1", "gone"]))
TERMS = st.tuples(st.lists(SETS | BARE | NUMBERS, max_size=3), st.lists(NAMES, max_size=2))
LABELS = st.dictionaries(KEYS, VALUES)


def is_readable(requirement):
    operator, values = requirement["operator"], requirement.get("values", [])
    if operator in ("In", "NotIn"):
        return bool(values)
    return operator in ("Exists", "DoesNotExist") or (operator in ("Gt", "Lt") and values[0].isdigit())


@given(st.lists(LABELS, min_size=1, max_size=8), LABELS, st.lists(TERMS, max_size=3), st.lists(TERMS, max_size=2))
def test_both_forms_agree(labels_by_node, selector, terms, added):
    nodes = [make_node(f"n{index}").labels(labels).build() for index, labels in enumerate(labels_by_node)]
    pod = make_pod().node_selector(selector)
    for weight, (expressions, fields) in enumerate(terms):
        pod.require_node(*expressions, fields=fields)
        pod.prefer_node(weight, *filter(is_readable, expressions), fields=fields)
    small = handle_of(*nodes)
    added_terms = [{"matchExpressions": expressions, "matchFields": fields} for expressions, fields in added]
    affinity = {REQUIRED: {"nodeSelectorTerms": added_terms}} if added else {}
    plugin = NodeAffinityPlugin(msgspec.convert({"addedAffinity": affinity}, NodeAffinityArgs), small)
    filtered(plugin, pod.info(), small)
    raw_scores(plugin, pod.info(), small)
