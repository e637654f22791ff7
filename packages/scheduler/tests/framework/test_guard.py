"""What other people's plugins answer is looked at: nonsense is told with who, where, what came and what is expected."""

import logging
from typing import NamedTuple

import numpy as np
import pytest

from berth.core.builders import make_node
from berth.framework.effects import WaitUntil
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint, QueueingHint
from berth.framework.guard import WrongAnswer, guarded
from berth.framework.interface import (
    DomainCodes,
    FilterColumn,
    FilterPlugin,
    OverDomains,
    PostFilterResult,
    PreFilterResult,
    ScorePlugin,
)
from berth.framework.promises import Dependency, Promises, promises_of
from berth.framework.registry import fills
from berth.framework.status import SKIP, Code, Status, error, unschedulable
from berth.framework.telling import Figure
from berth.plugins.registry import in_tree_registry
from berth.runtime.observing.cycle_log import SchedulerLog
from berth.state.table import WritableNodeTable
from packages.scheduler.tests.support import BOOM, boom, cluster, document, node, plugin, pod, with_profiles


def table(count=3):
    made = WritableNodeTable()
    for number in range(count):
        made.put_node(make_node(f"n{number}").capacity(cpu="4").build())
    return made


TABLE = table()
ROWS = slice(0, 3)


def column(codes, describe=lambda code: unschedulable("odd")):
    return FilterColumn(codes, describe)


CODES = np.array([0, 1, 0], dtype=np.int32)
SCORES = np.array([1, 2, 3], dtype=np.int64)
ZONES = OverDomains(object(), np.array([0, 1, -1, 1]), SCORES, 0)
STATE, POD, NODE = object(), object(), object()

ANY = object()
ARGUMENTS = {
    "pre_enqueue": (POD,),
    "less": (POD, POD),
    "pre_filter": (STATE, POD),
    "add_pod": (STATE, POD, POD, NODE),
    "filter": (STATE, POD, NODE),
    "filter_columns": (STATE, POD, TABLE, ROWS),
    "filter_row": (STATE, POD, TABLE, 1),
    "filter_domains": (STATE, POD),
    "post_filter": (STATE, POD, None),
    "pre_score": (STATE, POD, None),
    "score": (STATE, POD, NODE),
    "score_columns": (STATE, POD, TABLE, ROWS),
    "score_domains": (STATE, POD),
    "normalize_score": (STATE, POD, SCORES),
    "signature": (POD,),
    "figures": (),
    "explain_rejection": (POD,),
    "explain_score": (POD, NODE),
    "remedies": (POD,),
    "lesser_requests": (POD, NODE),
    "reserve": (STATE, POD, "n0"),
    "permit": (STATE, POD, "n0"),
    "pre_bind_pre_flight": (STATE, POD, "n0"),
    "pre_bind": (STATE, POD, "n0"),
    "bind": (STATE, POD, "n0"),
    "post_bind": (STATE, POD, "n0"),
    "placement_generate": (None, None),
    "placement_score": (None, None),
    "normalize_placement_scores": (None, [1, 2]),
}


def asked(method, answer):
    kind = type("Odd", (), {"name": "Odd", "__slots__": (), method: lambda self, *_: answer})
    made = guarded(kind(), "the distribution odd 1.0", lambda *_: None)
    return getattr(made, method)(*ARGUMENTS[method])


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("pre_enqueue", None),
        ("pre_enqueue", unschedulable("x")),
        ("less", np.bool_(True)),
        ("pre_filter", SKIP),
        ("pre_filter", PreFilterResult(frozenset({"n1"}))),
        ("pre_filter", PreFilterResult()),
        ("filter", error("x")),
        ("filter_row", np.int32(3)),
        ("filter_domains", None),
        ("filter_domains", DomainCodes(ZONES, str)),
        ("score_domains", ZONES),
        ("score", 3),
        ("score", np.int64(3)),
        ("score", error("x")),
        ("score_columns", SCORES),
        ("normalize_score", SCORES),
        ("signature", ("a", 1)),
        ("signature", None),
        ("figures", [Figure("seats_taken", {"rack": "r1"}, 3), Figure("seats_taken", {"rack": "r2"}, 0.5)]),
        ("figures", ()),
        ("explain_rejection", ["all seats are taken"]),
        ("explain_score", ["3 seats are free"]),
        ("remedies", []),
        ("lesser_requests", {"cpu": 500}),
        ("permit", (Status(Code.WAIT), 10)),
        ("permit", (None, 0.0)),
        ("permit", None),
        ("post_filter", (None, unschedulable("x"))),
        ("post_filter", (PostFilterResult("n1"), None)),
        ("bind", SKIP),
        ("post_bind", 3),
        ("placement_generate", []),
        ("normalize_placement_scores", [1, 2]),
    ],
)
def test_what_the_contract_allows_passes_as_it_is(method, answer):
    assert asked(method, answer) is answer


@pytest.mark.parametrize(
    ("method", "answer", "said"),
    [
        ("score", None, "Odd.score of the distribution odd 1.0 returned None, but an int or a Status is expected"),
        ("score", 3.5, "returned 3.5 (of type float), but an int or a Status is expected"),
        ("score", "x", "returned 'x' (of type str), but an int or a Status is expected"),
        ("score", True, "returned True (of type bool), but an int or a Status is expected"),
        ("score", 2**63, "but an int of 64 bits is expected"),
        (
            "filter",
            True,
            "Odd.filter of the distribution odd 1.0 returned True (of type bool), but a Status or None is",
        ),
        ("filter", "no", "returned 'no' (of type str), but a Status or None is expected"),
        ("filter", SKIP, "but the code Skip means nothing here"),
        ("filter", Status(Code.UNSCHEDULABLE, "text"), "but the reasons of a Status are a tuple of strings"),
        ("filter", unschedulable(["text"]), "but the reasons of a Status are a tuple of strings"),
        ("filter", Status(2, ("x",)), "but its code is 2 (of type int), not a Code"),
        ("reserve", Status(Code.WAIT), "but the code Wait means nothing here"),
        ("reserve", False, "returned False (of type bool), but a Status or None is expected"),
        ("add_pod", 0, "returned 0 (of type int), but a Status or None is expected"),
        ("pre_enqueue", True, "returned True (of type bool), but a Status or None is expected"),
        ("pre_score", True, "returned True (of type bool), but a Status or None is expected"),
        ("pre_bind", "done", "returned 'done' (of type str), but a Status or None is expected"),
        (
            "pre_bind_pre_flight",
            1,
            "returned 1 (of type int), but None, a Status or a PreBindPreFlightResult is expected",
        ),
        ("bind", True, "returned True (of type bool), but a Status or None is expected"),
        ("pre_filter", {"n1"}, "but None, a Status or a PreFilterResult is expected"),
        ("pre_filter", PreFilterResult(["n1"]), "but its node_names are a frozenset of node names, or None for all"),
        ("less", None, "returned None, but True or False is expected"),
        ("figures", None, "returned None, but a list of Figure is expected"),
        ("figures", [("seats", {}, 1)], "but a list of Figure is expected"),
        ("figures", [Figure("seatsTaken", {}, 1)], "its labels are in snake_case, not ('seatsTaken',)"),
        ("figures", [Figure("seats", {"a": "1"}, 1), Figure("seats", {}, 1)], "all figures called seats have the same"),
        ("figures", [Figure("seats", {}, True)], "but the figure seats is a number"),
        ("explain_rejection", "no seats", "but a list of strings is expected"),
        ("explain_score", 3, "but a list of strings is expected"),
        ("remedies", [{"spec": {}}], "but a list of Remedy is expected"),
        (
            "lesser_requests",
            {"cpu": "500m"},
            "but a mapping of resources to integers that are not negative is expected",
        ),
        ("lesser_requests", None, "but a mapping of resources to integers that are not negative is expected"),
        ("permit", unschedulable("x"), "but None or a tuple (Status or None, seconds) is expected"),
        ("permit", (None, "5s"), "but its second part is the seconds to wait at most"),
        ("permit", (True, 5), "but a Status or None is expected"),
        ("post_filter", None, "but a tuple (PostFilterResult or None, Status or None) is expected"),
        ("post_filter", PostFilterResult("n1"), "but a tuple (PostFilterResult or None, Status or None) is expected"),
        ("post_filter", ("n1", None), "but its first part is a PostFilterResult or None"),
        ("filter_columns", CODES, "but a FilterColumn(codes, describe) is expected"),
        ("filter_columns", column([0, 1, 0]), "but codes as a NumPy array of int32 and shape (3,) are expected"),
        ("filter_columns", column(CODES[:2]), "it has dtype int32 and shape (2,)"),
        ("filter_columns", column(CODES == 1), "it has dtype bool and shape (3,)"),
        ("filter_columns", column(CODES, "odd"), "but its describe is a function from a code to a Status"),
        ("score_columns", SCORES / 2, "it has dtype float64 and shape (3,)"),
        ("score_columns", [1, 2, 3], "but scores as a NumPy array of int64 and shape (3,) are expected"),
        ("normalize_score", SCORES[1:], "it has dtype int64 and shape (2,)"),
        ("filter_row", True, "but an int is expected"),
        ("filter_domains", ZONES, "but a DomainCodes or None is expected"),
        ("filter_domains", DomainCodes(ZONES, "odd"), "but its describe is a function"),
        ("filter_domains", DomainCodes(SCORES, str), "but an OverDomains or None is expected"),
        ("score_domains", SCORES, "but an OverDomains or None is expected"),
        ("score_domains", ZONES._replace(values=SCORES / 2), "but its ids and values are arrays of integers"),
        ("score_domains", ZONES._replace(values=SCORES[:1]), "but its ids are places in its values, or -1"),
        ("signature", ["a"], "but something hashable is expected"),
        ("signature", (["a"],), "but something hashable is expected, all the way down"),
        ("placement_generate", ["n1"], "but a sequence of Placement or a Status is expected"),
        ("placement_score", None, "but an int or a Status is expected"),
        ("normalize_placement_scores", [1], "but 2 ints or a Status are expected"),
    ],
)
def test_nonsense_is_told(method, answer, said):
    with pytest.raises(WrongAnswer) as raised:
        asked(method, answer)
    assert said in str(raised.value)


def test_nonsense_at_the_end_of_a_generator_is_told_and_its_steps_go_through():
    def bind(self, state, pod, node_name):
        answer = yield WaitUntil(lambda: True, 5.0)
        return "bound" if answer else None

    made = guarded(type("Odd", (), {"name": "Odd", "bind": bind})(), "a test", lambda *_: None)
    steps = made.bind(STATE, POD, "n0")
    assert isinstance(next(steps), WaitUntil)
    with pytest.raises(WrongAnswer, match=r"Odd\.bind of a test returned 'bound'"):
        steps.send(True)
    steps = made.bind(STATE, POD, "n0")
    next(steps)
    with pytest.raises(StopIteration) as end:
        steps.send(False)
    assert end.value.value is None


def test_what_describes_codes_and_hints_are_looked_at_too():
    answer = asked("filter_columns", column(CODES, lambda code: "odd"))
    with pytest.raises(WrongAnswer, match=r"describe\(1\) returned 'odd' \(of type str\), but a Status that rejects"):
        answer.describe(1)
    event = ClusterEvent("Node", Action.ADD)
    entries = [ClusterEventWithHint(event, lambda *_: True), ClusterEventWithHint(event)]
    made = guarded(plugin("Odd", events=entries)(None, None), "a test", lambda *_: None)
    hinted, without = made.events_to_register()
    with pytest.raises(WrongAnswer, match=r"a hint returned True \(of type bool\), but a QueueingHint is expected"):
        hinted.hint(None, None, None)
    assert (hinted.event, without) == (event, ClusterEventWithHint(event))
    entries[0] = ClusterEventWithHint(event, lambda *_: QueueingHint.SKIP)
    assert made.events_to_register()[0].hint(None, None, None) is QueueingHint.SKIP


def test_a_guarded_plugin_promises_what_its_own_class_does():
    promises = Promises(score_depends_on=frozenset({Dependency.NODE}))
    kind = type("Fine", (), {"name": "Fine", "promises": promises, "score": lambda *_: 1})
    made = guarded(kind(), "a test", lambda *_: None)
    assert promises_of(type(made)) is promises
    assert isinstance(made, kind) and type(made).__name__ == "Fine"


def test_a_guarded_plugin_that_inherits_protocols_gets_no_method_that_it_only_declares():
    kind = type("Fine", (ScorePlugin, FilterPlugin), {"name": "Fine", "__slots__": (), "score": lambda *_: None})
    made = guarded(kind(), "a test", lambda *_: None)
    assert fills(type(made), "score") and not fills(type(made), "filter")
    with pytest.raises(WrongAnswer, match=r"Fine\.score of a test returned None, but an int"):
        made.score(STATE, POD, NODE)


def test_berths_own_plugins_are_not_guarded():
    found = cluster(config=document("Mine"), plugins={"Mine": plugin("Mine", filter=lambda *_: None)})
    made = {each.name: each.plugin for each in found.core.profiles["default-scheduler"].plugins}
    own = in_tree_registry()
    assert type(made["NodeName"]) is own.factory("NodeName")
    assert type(made["Mine"]) is not found.registry.factory("Mine")


# --- as people see it -------------------------------------------------------------------------------------------------


def told(**methods):
    plugins = {"multiPoint": {"enabled": [{"name": "Odd"}]}}
    if "bind" in methods:
        plugins["bind"] = {"disabled": [{"name": "*"}], "enabled": [{"name": "Odd"}]}
    config = with_profiles({"plugins": plugins})
    found = cluster(node(), node("n2"), config=config, plugins={"Odd": plugin("Odd", **methods)})
    found.put(pod("a"))
    found.run()
    assert found.nodes_of()["a"] == ""
    return found.patches("a")[-1].message


NOTHING = {"unreserve": lambda *_: None}


@pytest.mark.parametrize(
    ("methods", "said"),
    [
        ({"score": lambda *_: None}, "Odd.score of a test returned None, but an int or a Status is expected"),
        ({"filter": lambda *_: True}, "Odd.filter of a test returned True (of type bool), but a Status or None is exp"),
        ({"pre_filter": lambda *_: 1}, "Odd.pre_filter of a test returned 1 (of type int), but None, a Status or a"),
        ({"reserve": lambda *_: 1, **NOTHING}, "Odd.reserve of a test returned 1 (of type int), but a Status or None"),
        ({"permit": lambda *_: True}, "Odd.permit of a test returned True (of type bool), but None or a tuple (Status"),
        (
            {"pre_bind": lambda *_: 1},
            "Odd.pre_bind of a test returned 1 (of type int), but a Status or None is expecte",
        ),
        ({"bind": lambda *_: 1}, "Odd.bind of a test returned 1 (of type int), but a Status or None is expected"),
    ],
)
def test_the_pods_condition_tells_of_nonsense(methods, said):
    message = told(**methods)
    assert "WrongAnswer: " in message and said in message


def test_permit_may_approve_with_none():
    found = cluster(node(), config=document("Odd"), plugins={"Odd": plugin("Odd", permit=lambda *_: None)})
    found.put(pod("a"))
    assert found.run().nodes_of() == {"a": "n1"}


def test_a_plugins_exception_is_logged_in_full_once_and_told_with_its_place(caplog):
    odd = plugin("Odd", filter=boom)
    found = cluster(node(), node("n2"), config=document("Odd"), plugins={"Odd": odd}, instrument=SchedulerLog())
    with caplog.at_level(logging.ERROR):
        found.put(pod("a"))
        found.put(pod("b"))
        found.advance(30.0)
    in_full = [record.getMessage() for record in caplog.records if record.exc_info]
    assert in_full == [f"plugin Odd broke in filter: {BOOM}"]
    assert len(caplog.records) > 4, "each attempt is told in a line of its own"
    assert found.patches("a")[-1].message.endswith(BOOM)
    assert found.core.trace["default/a"].message.endswith(BOOM)


def test_a_plugin_whose_class_cannot_be_changed_works_all_the_same():
    class Rigid(NamedTuple):
        args: None
        handle: object

        def score(self, state, pod, node):
            return 7

    made = Rigid(None, None)
    assert guarded(made, "a test", lambda *_: None) is made
    assert made.score(None, None, None) == 7
