"""Plugins hear which pods there are: each once when it comes and once when it is gone, and never in the middle of work.

What is expected follows from the contract (`PodEventHandlerPlugin`), which is that of an informer's handlers: see
`ResourceEventHandler` in client-go, tools/cache/controller.go.
"""

import random

import msgspec
import numpy as np
import pytest

import berth
from berth.core.intake import ObjectEvent
from berth.cycle.instrument import Instrument
from berth.framework.effects import Answer, ApiCall
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint, QueueingHint
from berth.framework.interface import FilterColumn
from berth.framework.promises import Dependency, Promises
from berth.framework.registry import Registry
from berth.framework.status import Code, Status, unschedulable
from berth.plugins.registry import in_tree_registry
from berth.runtime.stack import POINT_OF_METHOD
from berth.testing import VirtualCluster, make_node, make_pod
from packages.scheduler.tests.support import boom, document, plugin
from tests.effort import examples
from tests.runtime.world import POD, World, configuration, scheduling
from tests.waiting import until


class Ledger:
    """Keeps a book of the pods that it is told of, and refuses to be told twice."""

    name = "Ledger"
    made = []
    """Every instance, the youngest last."""

    def __init__(self, args, handle):
        self.handle = handle
        self.pods, self.gone, self.calls = {}, set(), []
        self.made.append(self)

    def pod_added(self, pod):
        assert pod.uid not in self.pods and pod.uid not in self.gone, "told a second time"
        self.pods[pod.uid] = pod
        self.calls.append(("added", pod.name, pod.node_name))

    def pod_updated(self, old, new):
        assert self.pods[new.uid] is old and old.uid == new.uid
        self.pods[new.uid] = new
        self.calls.append(("updated", new.name, new.node_name))

    def pod_removed(self, pod):
        assert self.pods.pop(pod.uid) is not None
        self.gone.add(pod.uid)
        self.calls.append(("removed", pod.name, pod.node_name))

    def filter(self, state, pod, node):
        assert pod.uid in self.pods, "a pod is told of before it is scheduled"
        return

    def events_to_register(self):
        return ()


@pytest.fixture(autouse=True)
def nobody_yet():
    Ledger.made.clear()


def node(name="n1", cpu="4"):
    return make_node(name).capacity(cpu=cpu, memory="8Gi")


def ledger():
    return Ledger.made[-1]


def test_a_pods_life_is_told_in_order():
    cluster = VirtualCluster(node(), make_pod("a"), plugins=[Ledger]).run()
    cluster.delete("Pod", "default/a")
    told = [call for call, after in zip(ledger().calls, [*ledger().calls[1:], None], strict=True) if call != after]
    assert told == [("added", "a", ""), ("updated", "a", "n1"), ("removed", "a", "n1")]


# Pods that end are filtered out of what upstream's scheduler follows (status.phase, scheduler.go: NewInformerFactory),
# so that they are deleted for it; those of other schedulers are followed like ours.
@pytest.mark.parametrize(
    "ends",
    [
        lambda cluster: cluster.delete("Pod", "default/a"),
        lambda cluster: cluster.put(make_pod("a").node("n1").phase("Succeeded")),
        lambda cluster: cluster.put(make_pod("a").uid("another")),
    ],
    ids=["deleted", "finished", "replaced"],
)
@pytest.mark.parametrize("made", [make_pod("a"), make_pod("a").node("n1"), make_pod("a").scheduler("other")])
def test_whatever_ends_a_pod_it_is_told_once(made, ends):
    cluster = VirtualCluster(node(), made, plugins=[Ledger])
    ends(cluster)
    assert [call[0] for call in ledger().calls if call[0] != "updated"][:2] == ["added", "removed"]
    assert "default/a" in ledger().gone


def test_who_had_finished_is_never_told_of():
    VirtualCluster(node(), make_pod("a").node("n1").phase("Failed"), plugins=[Ledger])
    assert ledger().calls == []


HOLDS = plugin("Holds", permit=lambda *_: (Status(Code.WAIT), 600.0))


def test_a_reserved_pod_that_is_deleted_is_removed_before_it_is_unreserved():
    order = []
    keeper = plugin(
        "Keeper",
        reserve=lambda *_: order.append("reserve"),
        unreserve=lambda *_: order.append("unreserve"),
        pod_added=lambda pod: order.append(f"added {pod.node_name}"),
        pod_removed=lambda pod: order.append(f"removed {pod.node_name}"),
    )
    cluster = VirtualCluster(node(), make_pod("a"), plugins=[keeper, HOLDS]).run()
    assert order == ["added ", "reserve"], "a place that is only intended is not told"
    cluster.delete("Pod", "default/a")
    cluster.run()
    assert order == ["added ", "reserve", "removed ", "unreserve"]


def test_a_binding_whose_answer_is_lost_leaves_the_pod_bound():
    cluster = VirtualCluster(node(), make_pod("a"), plugins=[Ledger])
    cluster.answers_binds = False
    cluster.run()
    (request,) = cluster.requests
    cluster.put(make_pod("a").node("n1"))
    cluster.answer(request, error="timeout")
    cluster.run()
    assert ledger().pods["default/a"].node_name == "n1"


def test_nothing_is_told_while_a_cycle_is_open():
    def steps(*_):
        yield ApiCall("get", "Node", "", "x")
        return None, unschedulable("no")

    waits = plugin("Waits", post_filter=steps)
    cluster = VirtualCluster(node(), make_pod("big").request(cpu="100"), plugins=[Ledger, waits])
    cluster.answer_api = None
    cluster.run()
    assert cluster.core.is_cycle_open
    before = list(ledger().calls)
    cluster.put(make_pod("a"))
    cluster.put(make_pod("b").node("n1"))
    cluster.delete("Pod", "default/b")
    assert ledger().calls == before
    (request,) = cluster.requests
    cluster.handle(Answer(request.ticket, None, ""))
    assert [call for call in ledger().calls if call[1] != "big"] == [
        ("added", "a", ""),
        ("added", "b", "n1"),
        ("removed", "b", "n1"),
    ]


def test_it_is_told_before_pre_enqueue_and_hints_are_asked_and_after_the_cache():
    order = []
    counted = {}

    def hint(pod, old, new):
        order.append("hint")
        return QueueingHint.SKIP

    def told(what):
        def note(pod):
            order.append(what)
            counted[what] = watching.handle.cache.state_of(pod.uid) is not None

        return note

    watching = plugin(
        "Watching",
        events=[ClusterEventWithHint(ClusterEvent("Pod", Action.ADD | Action.DELETE), hint)],
        pre_enqueue=lambda *_: order.append("pre_enqueue"),
        filter=lambda state, pod, node: unschedulable("no") if pod.name == "a" else None,
        pod_added=told("added"),
        pod_removed=told("removed"),
    )
    cluster = VirtualCluster(node(), make_pod("a"), plugins=[watching]).run()
    assert order[:2] == ["added", "pre_enqueue"]
    order.clear()
    cluster.put(make_pod("b").node("n1"))
    assert (order, counted["added"]) == (["added", "hint"], True)
    order.clear()
    cluster.delete("Pod", "default/b")
    assert (order, counted["removed"]) == (["removed", "hint"], False)


def test_after_a_restart_new_plugins_are_told_before_the_first_cycle():
    cluster = VirtualCluster(node(), make_pod("a"), make_pod("b").request(cpu="100"), plugins=[Ledger]).run()
    cluster.restart()
    assert len(Ledger.made) == 2
    assert sorted(ledger().calls) == [("added", "a", "n1"), ("added", "b", "")]
    assert cluster.run().nodes_of() == {"a": "n1", "b": ""}


def test_each_profiles_plugin_is_told_of_all_pods():
    plugins = {"multiPoint": {"enabled": [{"name": "Ledger"}]}}
    config = document("Ledger")
    config["profiles"] = [{"schedulerName": name, "plugins": plugins} for name in ("one", "two")]
    VirtualCluster(node(), make_pod("a").scheduler("one"), config=config, plugins={"Ledger": Ledger}).run()
    assert [list(each.pods) for each in Ledger.made] == [["default/a"]] * 2


class Heard(Instrument):
    """Collects what is told of broken plugins."""

    def __init__(self):
        self.broken = []

    def plugin_broke(self, plugin, method, bug):
        self.broken.append((plugin, method, str(bug)))


@pytest.mark.parametrize("method", ["pod_added", "pod_updated", "pod_removed"])
def test_what_it_raises_is_told_once_and_changes_nothing(method):
    quiet = {"pod_added": lambda *_: None, "pod_updated": lambda *_: None, "pod_removed": lambda *_: None}
    odd, heard = plugin("Breaks", score=lambda *_: 1, **quiet | {method: boom}), Heard()
    cluster = VirtualCluster(node(), make_pod("a"), make_pod("b"), plugins=[odd, Ledger], instrument=heard).run()
    assert set(cluster.nodes_of().values()) == {"n1"}
    cluster.delete("Pod", "default/a")
    cluster.delete("Pod", "default/b")
    assert not ledger().pods and len(ledger().gone) == 2, "the others still hear of everything"
    assert heard.broken == [("Breaks", method, "boom")]
    assert not cluster.events("FailedScheduling")


def test_a_plugin_that_is_not_guarded_is_told_of_as_well():
    odd, heard = plugin("Breaks", score=lambda *_: 1, pod_added=boom, pod_removed=lambda *_: None), Heard()
    ours = in_tree_registry().merge(Registry({"Breaks": odd}))
    cluster = VirtualCluster(node(), make_pod("a"), registry=ours, config=document("Breaks"), instrument=heard).run()
    assert (cluster.nodes_of(), heard.broken) == ({"a": "n1"}, [("Breaks", "pod_added", "boom")])


def test_a_plugin_that_does_not_come_back_is_named_with_what_it_does():
    assert {POINT_OF_METHOD[method] for method in ("pod_added", "pod_updated", "pod_removed")} == {"PodEvent"}


def test_where_no_plugin_listens_nobody_is_asked():
    assert VirtualCluster().core.intake.handlers is None


class Counts:
    """Fits a node if an even number of pods is known; its columns are kept as long as its own state stays the same."""

    name = "Counts"
    promises = Promises(filter_depends_on=frozenset({Dependency.OWN_RESERVATIONS}))

    def __init__(self, args, handle):
        self._known = set()

    def pod_added(self, pod):
        self._known.add(pod.uid)

    def pod_removed(self, pod):
        self._known.discard(pod.uid)

    def signature(self, pod):
        return ()

    def filter(self, state, pod, node):
        return unschedulable("odd") if len(self._known) % 2 else None

    def filter_columns(self, state, pod, table, rows):
        codes = np.full(len(table.valid[rows]), len(self._known) % 2, np.int32)
        return FilterColumn(codes, lambda _: unschedulable("odd"))

    def events_to_register(self):
        return ()


def test_answers_that_are_kept_go_with_the_state_they_were_made_from():
    cluster = VirtualCluster(node(), plugins=[Counts])
    for number in range(6):  # the first requests for a column are not kept
        cluster.put(make_pod(f"p{number}"))
        cluster.run()
    assert list(cluster.nodes_of().values()) == ["", "n1"] * 3


def test_the_engine_as_a_library_tells_of_pods():
    scheduler = berth.Scheduler(plugins=[Ledger])
    scheduler.add(node(), make_pod("there").node("n1"))
    scheduler.schedule(make_pod("a"))
    assert {key: pod.node_name for key, pod in ledger().pods.items()} == {"default/there": "n1", "default/a": "n1"}
    scheduler.remove("Pod", "there")
    assert ledger().gone == {"default/there"}


def live_configuration(seconds=1):
    enabled = {"multiPoint": {"enabled": [{"name": "Ledger"}]}}
    return configuration(profiles=[{"plugins": enabled}], podInitialBackoffSeconds=seconds)


async def test_the_live_scheduler_tells_at_the_start_and_after_a_reload():
    world = World(nodes=1, cpu="4")
    world.add_pod("before")
    registry = in_tree_registry().merge(Registry({"Ledger": Ledger}, "the test"))
    async with scheduling(world, live_configuration(), registry=registry) as scheduler:
        await until(lambda: world.node_of("before") and scheduler.core.cache.assumed_count == 0)
        first = ledger()
        await scheduler.reconfigure(live_configuration(2))
        assert ledger() is not first
        assert [(call, name, bool(where)) for call, name, where in ledger().calls] == [("added", "before", True)]
        world.add_pod("after")
        await until(lambda: world.node_of("after"))
        world.store.delete(POD, "default", "before", {"gracePeriodSeconds": 0})
        await until(lambda: len(ledger().gone) == 1)
        assert [call[0] for call in first.calls if call[1] == "after"] == []


def test_through_any_history_the_book_is_what_the_core_knows():
    for seed in range(examples(30)):
        rng = random.Random(seed)
        cluster = VirtualCluster(node("n1"), node("n2"), plugins=[Ledger, HOLDS] if seed % 3 == 0 else [Ledger])
        cluster.answers_binds = seed % 2 == 0
        for number in range(120):
            happen(rng, cluster, number)
            assert set(ledger().pods) == {pod.uid for pod in cluster.core.intake.pods}, (seed, number)
            assert all(ledger().pods[pod.uid] is pod for pod in cluster.core.intake.pods)


def happen(rng, cluster, number):
    """Let one thing happen to a pod, the API server or the scheduler."""
    names = [key for kind, key in cluster.objects if kind == "Pod"]
    act = rng.randrange(9)
    if act <= 2 or not names:
        made = make_pod(f"p{rng.randrange(8)}").uid(f"uid-{number}").request(cpu="1")
        cluster.put(made.node("n1") if act == 0 else made.scheduler("other") if act == 1 and number % 3 else made)
        return
    key = rng.choice(names)
    pod = cluster.objects["Pod", key]
    if act == 3:
        cluster.delete("Pod", key)
    elif act == 4:
        labels = {"turn": str(number)}
        cluster.put(msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, labels=labels)))
    elif act == 5:
        cluster.put(msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, phase="Succeeded")))
    elif act == 6 and cluster.requests:
        cluster.answer(rng.choice(cluster.requests), error=rng.choice(["", "refused"]))
    elif act == 7 and number % 5 == 0:
        cluster.restart()
    elif act == 8:
        cluster.handle(ObjectEvent("ADDED", "Pod", pod))  # told twice, as after a list
    cluster.advance(rng.choice([0.0, 1.0, 20.0]))
