"""Nothing that a plugin is given lets itself be changed: every value, every way of changing it.

A plugin with the methods of the contract lives through pods that come, wait, fit nowhere, preempt and go. All that it
was given is followed to its last public attribute, and each of these is set, deleted, written into and emptied. What a
plugin may change on purpose is listed, with the reason.
"""

import contextlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import pytest

from berth.api.custom import CustomResource
from berth.api.web import WebResource
from berth.framework.diagnosis import Diagnosis
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint, QueueingHint
from berth.framework.faces import shown
from berth.framework.guard import guarded
from berth.framework.interface import Narrowed, Placement, PodGroupAssignments, RowLoad
from berth.framework.loader import contract
from berth.framework.profile_view import ProfileView
from berth.framework.promises import Dependency, Promises
from berth.framework.readers import (
    CacheReader,
    EvictionReader,
    NominationReader,
    ObjectReader,
    PodGroupReader,
    WaitingPodsView,
)
from berth.framework.status import Code, Status, unschedulable
from berth.framework.waiting_pods import WaitingPod
from berth.state.queued_pod import QueuedPod
from berth.state.table import WritableNodeTable
from berth.state.topology import RowCounts
from berth.testing import VirtualCluster, make_node, make_pod
from berth.testing.invariants import check
from packages.scheduler.tests.support import with_profiles

MAPS = {
    "[]=": lambda found: found.__setitem__("new", "x"),
    "del": lambda found: found.__delitem__(next(iter(found), "new")),
    "|=": lambda found: found.__ior__({"new": "x"}),
    "clear": lambda found: found.clear(),
    "pop": lambda found: found.pop(next(iter(found), "new"), None),
    "popitem": lambda found: found.popitem(),
    "setdefault": lambda found: found.setdefault("new", "x"),
    "update": lambda found: found.update(new="x"),
}
LISTS = {
    "[]=": lambda found: found.__setitem__(0, "x"),
    "del": lambda found: found.__delitem__(0),
    "+=": lambda found: found.__iadd__(["x"]),
    "*=": lambda found: found.__imul__(2),
    "append": lambda found: found.append("x"),
    "clear": lambda found: found.clear(),
    "extend": lambda found: found.extend(["x"]),
    "insert": lambda found: found.insert(0, "x"),
    "pop": lambda found: found.pop(),
    "remove": lambda found: found.remove(next(iter(found), "x")),
    "reverse": lambda found: found.reverse(),
    "sort": lambda found: found.sort(key=id),
}
SETS = {
    "add": lambda found: found.add("x"),
    "clear": lambda found: found.clear(),
    "discard": lambda found: found.discard("x"),
    "pop": lambda found: found.pop(),
    "remove": lambda found: found.remove("x"),
    "update": lambda found: found.update({"x"}),
}
ARRAYS = {
    "[]=": lambda found: found.__setitem__(..., found),
    "+=": lambda found: np.add(found, 0, out=found, casting="unsafe"),
    "fill": lambda found: found.fill(0),
    "sort": lambda found: found.sort(),
    "resize": lambda found: found.resize(0, refcheck=False),
    "setflags": lambda found: found.setflags(write=True),
    "a view": lambda found: found[:].__setitem__(..., found),
}
REFUSALS = (AttributeError, TypeError, ValueError)
UNCHANGING = (str, bytes, int, float, type, Enum, random.Random)

ON_PURPOSE = {
    ("WritableNodeTable", "derived"): "what plugins share among themselves, by keys of their own",
    ("PodInfo", "shape"): "what the engine keeps for pods like this one; the contract says nothing of it",
    ("PodInfo", "fragments"): "what plugins have worked out for pods like this one, by keys of their own",
}


class Given(NamedTuple):
    """A value, and how a plugin comes by it."""

    path: str
    value: Any


def public_names(value: Any) -> Iterator[str]:
    """Yield the attributes of an object that are data."""
    names = dict.fromkeys(name for kind in type(value).__mro__ for name in vars(kind))
    names |= dict.fromkeys(getattr(value, "__dict__", ()))
    for name in names:
        if name.startswith("_") or (type(value).__name__, name) in ON_PURPOSE:
            continue
        try:
            found = getattr(value, name)
        except (AttributeError, ValueError):  # a property that has nothing to tell yet
            continue
        if not callable(found) or not hasattr(type(value), name):
            yield name


def reachable(given: Given, seen: dict[int, Any]) -> Iterator[Given]:
    """Yield a value and all that can be reached from it by public names, each once."""
    path, value = given
    if id(value) in seen or value is None or isinstance(value, UNCHANGING):
        return
    seen[id(value)] = value  # which also keeps it alive, so that no other has its id
    yield given
    if isinstance(value, Mapping):
        children = [Given(f"{path}[{key!r}]", each) for key, each in list(value.items())]
    elif isinstance(value, list | tuple | set | frozenset):
        children = [Given(f"{path}[{number}]", each) for number, each in enumerate(value)]
    else:
        children = []
    if type(value).__module__.startswith("berth"):
        children += [Given(f"{path}.{name}", getattr(value, name)) for name in public_names(value)]
    for child in children:
        yield from reachable(child, seen)


def ways(value: Any) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield all ways to change a value itself."""
    for kind, acts in ((Mapping, MAPS), (list, LISTS), (set, SETS), (np.ndarray, ARRAYS)):
        if isinstance(value, kind):
            yield from ((f"{kind.__name__} {way}", lambda act=act: act(value)) for way, act in acts.items())
    if not type(value).__module__.startswith("berth"):
        return
    for name in public_names(value):
        yield f".{name} =", lambda name=name: setattr(value, name, getattr(value, name))
        yield f"del .{name}", lambda name=name: delattr(value, name)
    yield ".something_new =", lambda: setattr(value, "something_new", 1)


def changeable(given: Sequence[Given]) -> tuple[list[str], set[str]]:
    """Return each way to change something of these values that is not refused, and the types that were tried."""
    seen: dict[int, Any] = {}
    found = [each for value in given for each in reachable(value, seen)]
    let = []
    # All ways first: what is changed by one of them may be in the way of looking for others.
    for path, value, way, act in [(*each, *way) for each in found for way in ways(each.value)]:
        try:
            act()
        except REFUSALS:
            continue
        except (KeyError, IndexError):
            pass
        let.append(f"{path} ({type(value).__name__}) {way}")
    return let, {type(value).__name__ for _, value in found}


def public(value: Any) -> set[str]:
    """Return the public names of an object, or of a Protocol."""
    return {name for name in dir(value) if not name.startswith("_")}


# --- what is handed out -----------------------------------------------------------------------------------------------


def keeping(given: list[Given], name: str, method: str, answer: Any = None) -> Callable[..., Any]:
    """A method that keeps what it is called with, and answers so."""

    def keep(self: Any, *arguments: Any) -> Any:
        given.extend(Given(f"{name}.{method}({number})", each) for number, each in enumerate(arguments))
        return answer(*arguments) if callable(answer) else answer

    return keep


def curious(given: list[Given], name: str, **methods: Any) -> type:
    """A plugin that keeps all that it is given."""

    def init(self: Any, args: Any, handle: Any) -> None:
        given.append(Given(f"{name}.handle", handle))
        given.append(Given(f"{name}.followed", handle.follow(CustomResource("example.com", "v1", "racks", "Rack"))))
        given.append(Given(f"{name}.polled", handle.poll(WebResource("document", "http://127.0.0.1:9/", 60.0))))
        self.preemption = handle.preemption(self)
        self.handle = handle

    promises = methods.pop("promises", Promises())
    body = {method: keeping(given, name, method, answer) for method, answer in methods.items()}
    hints = [
        ClusterEventWithHint(ClusterEvent(kind, Action.ALL), keeping(given, name, "hint", QueueingHint.SKIP).__get__(1))
        for kind in ("Node", "Pod", "Service")
    ]
    events = {"events_to_register": lambda self: hints}
    return type(name, (), {"name": name, "__init__": init, "promises": promises, **events, **body})


def everything_given() -> tuple[list[Given], VirtualCluster]:
    """What plugins with all methods are called with while things happen, what can be had by their handle, and where."""
    given: list[Given] = []
    rejecting = {"never": unschedulable("no")}
    plain = curious(
        given,
        "Plain",
        pre_enqueue=None,
        pre_filter=None,
        filter=lambda state, pod, node: rejecting.get(pod.name),
        add_pod=None,
        remove_pod=None,
        post_filter=None,
        ineligibility=None,
        potential_victims=lambda state, pod, node: [each for each in node.pods.values() if each.name == "low"],
        refusal=None,
        narrow=lambda state, pod, nodes: Narrowed(np.array(nodes.mask), unschedulable("less")),
        pre_score=None,
        score=1,
        normalize_score=lambda state, pod, scores: scores,
        reserve=None,
        unreserve=None,
        permit=lambda state, pod, node: (Status(Code.WAIT), 5.0) if pod.name == "waits" else None,
        pre_bind=None,
        post_bind=None,
        pod_added=None,
        pod_updated=None,
        pod_removed=None,
    )

    def post_filter(self: Any, state: Any, pod: Any, diagnosis: Any) -> Any:
        given.extend(Given(f"Plain.post_filter({each})", each) for each in (state, diagnosis))
        return self.preemption.post_filter(state, pod, diagnosis)

    plain.post_filter = post_filter
    columns = curious(
        given,
        "Columns",
        promises=Promises(score_depends_on=frozenset({Dependency.NODE})),
        signature=(),
        score=1,
        score_columns=lambda state, pod, table, rows: np.ones(len(table.valid[rows]), dtype=np.int64),
    )
    sort = curious(
        given,
        "Sort",
        less=lambda a, b: a.timestamp < b.timestamp,
        tenant_of=lambda queued: queued.pod.namespace,
        next_tenant=lambda heads: next(iter(heads)),
    )
    plugins = {
        "multiPoint": {"enabled": [{"name": "Plain"}, {"name": "Columns"}]},
        "queueSort": {"enabled": [{"name": "Sort"}], "disabled": [{"name": "*"}]},
        "postFilter": {"disabled": [{"name": "DefaultPreemption"}]},
    }
    cluster = VirtualCluster(
        config=with_profiles({"plugins": plugins}),
        plugins={"Plain": plain, "Columns": columns, "Sort": sort},
        check_promises=0,
    )
    for number in range(3):
        node = make_node(f"n{number}").capacity(cpu="4", memory="8Gi", pods="20").label("zone", "a")
        cluster.put(node.taint("busy", "", "PreferNoSchedule"))
    cluster.put(make_pod("low").request(cpu="3").priority(-1).node("n0"))
    for name in ("one", "never", "waits", "two"):
        cluster.put(make_pod(name).request(cpu="1").label("app", "a"))
    cluster.run()
    cluster.put(make_pod("large").request(cpu="4").priority(5))
    cluster.run()
    handle = given[0].value
    table, states = handle.cache.table, handle.cache.states()
    given += [Given("label", table.label("zone")), Given("view", table.view(0)), Given("states", states)]
    given += [Given("waiting", each) for each in handle.waiting]
    given += [Given("profile", handle.profile())]
    cluster.put(make_node("n1").capacity(cpu="4", memory="8Gi", pods="20").label("zone", "b"))
    cluster.delete("Pod", "default/two")
    cluster.delete("Node", "n2")
    cluster.advance(60.0)
    return given, cluster


HANDED_OUT = {
    "Cache", "ChangeLog", "CustomObjects", "CycleState", "Diagnosis", "Evictions", "FeasibleNodes",
    "FeatureGates", "ImageIndex", "LabelColumn", "Node", "NodeTree", "NodeView", "Nominator", "ObjectStore", "Pod",
    "PodGroups", "PodIndex", "PodInfo", "PodState", "ProfileView", "QueuedPod", "ReadOnlyDict", "ReadOnlyList",
    "WaitingPod", "WaitingPods", "WebDocument", "WhatIfNode", "WorkBudget", "WritableNodeTable", "Handle",
    "mappingproxy", "ndarray",
}  # fmt: skip


def test_nothing_that_is_handed_out_lets_itself_be_changed():
    given, cluster = everything_given()
    let, tried = changeable(given)
    assert not HANDED_OUT - tried, "the walk has not come there"
    assert not let, "\n".join(let)
    check(cluster.core)


def test_the_walk_finds_what_lets_itself_be_changed():
    cache = VirtualCluster(make_node("n1").capacity(cpu="1", pods="9"), make_pod("a").node("n1")).core.cache
    let, _ = changeable([Given("cache", cache), Given("array", np.ones(3)), Given("set", {1})])
    for way in ("cache (Cache) .table =", "array (ndarray) ndarray []=", "set (set) set clear"):
        assert way in let, let


# --- what is given as an argument, by the guard -----------------------------------------------------------------------

ROWS = np.array([0, 1], dtype=np.intp)
ARGUMENTS = {
    "rows": lambda: ROWS.copy(),
    "scores": lambda: np.array([1, 2], dtype=np.int64),
    "load": lambda: RowLoad(np.ones(2, dtype=np.int64), {"cpu": np.ones(2, dtype=np.int64)}),
    "parent": lambda: Placement("all", ROWS.copy()),
    "assignments": lambda: PodGroupAssignments(Placement("all", ROWS.copy()), ()),
}


@pytest.mark.parametrize(
    ("method", "name"),
    [(m, name) for m, found in contract().items() for name in found.parameters if name in ARGUMENTS],
)
def test_arrays_that_plugins_are_called_with_are_the_engines(method, name):
    given: list[Given] = []
    kind = type("Curious", (), {"name": "Curious", method: keeping(given, "Curious", method)})
    plugin = guarded(kind(), "a test", lambda *_: None)
    parameters = [each for each in contract()[method].parameters if each != "self"]
    with contextlib.suppress(TypeError, AttributeError):  # of its answer, which is none
        getattr(plugin, method)(*(ARGUMENTS.get(each, lambda: None)() for each in parameters))
    let, tried = changeable(given)
    assert "ndarray" in tried and not let


# --- what the handle gives out ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attribute", "protocol"),
    [
        ("cache", CacheReader),
        ("objects", ObjectReader),
        ("nominator", NominationReader),
        ("pod_groups", PodGroupReader),
        ("evictions", EvictionReader),
        ("waiting", WaitingPodsView),
    ],
)
def test_other_peoples_plugins_get_nothing_but_what_reads(attribute, protocol):
    given, _ = everything_given()
    assert public(getattr(given[0].value, attribute)) == public(protocol)


def test_a_profile_can_be_asked_and_no_more():
    given, _ = everything_given()
    profile = given[0].value.profile()
    assert profile.name == "default-scheduler" and len(profile.table) == 2
    assert public(profile) == public(ProfileView)


TABLE = VirtualCluster(make_node("n1").capacity(cpu="1", pods="9")).core.cache.table


@pytest.mark.parametrize(
    ("kept", "left_out"),
    [
        (TABLE, {"face", "labels", *(name for name in vars(WritableNodeTable) if not name.startswith("_"))}),
        (TABLE.label("zone"), {"face", "grow", "set"}),
        (TABLE.images, {"grow", "put"}),
        (TABLE.node_log, {"append"}),
        (TABLE.tree, {"put", "put_in_order", "remove"}),
        (Diagnosis(1, str), {"add", "overrule"}),
        (QueuedPod(make_pod("a").info(), 0.0), {"copied"}),
        (RowCounts(1), {"add", "add_all", "grow"}),
        (WaitingPod(make_pod("a").info(), "n1", {}, 0.0), {"time_out"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_face_has_all_names_but_those_that_write(kept, left_out):
    assert public(shown(kept)) == public(kept) - left_out
    assert shown(kept) == shown(kept) and hash(shown(kept)) == hash(kept)
