"""QueueSort plugins that break: the pod at fault is told why, the others go on, and nobody is lost.

Expectations follow from docs/plugins.md ("When something goes wrong") and from the queue's own rule that a pod is in
exactly one place.
"""

import random
from itertools import count
from types import SimpleNamespace

import pytest

from berth.cycle.instrument import Instrument
from berth.plugin import Action, ClusterEvent, ClusterEventWithHint, QueueingHint, unschedulable
from berth.queue.heap import PodHeap
from berth.queue.sort_key import QueueOrder
from berth.state.queued_pod import QueuedPod
from berth.testing import VirtualCluster, make_node, make_pod, make_pod_group
from berth.testing.invariants import check_queue

DUE = "due"


class ByDue:
    name = "ByDue"

    def __init__(self, args, handle):
        pass

    def less(self, a, b):
        return a.pod.metadata.annotations[DUE] < b.pod.metadata.annotations[DUE]


class ByDueKey(ByDue):
    def sort_key(self, queued):
        return queued.pod.metadata.annotations[DUE]

    def less(self, a, b):
        return self.sort_key(a) < self.sort_key(b)


class MixedKeys(ByDueKey):
    def sort_key(self, queued):
        return queued.pod.metadata.annotations.get(DUE) or 0

    def less(self, a, b):
        return self.sort_key(a) < self.sort_key(b)


class OddAnswer(ByDue):
    def less(self, a, b):
        return "yes" if "odd" in (a.pod.name, b.pod.name) else a.pod.name < b.pod.name


class Tenants(ByDueKey):
    def tenant_of(self, queued):
        return queued.pod.metadata.labels["tenant"]

    def next_tenant(self, heads):
        return min(heads)


def cluster_of(plugin, *objects, **options):
    return VirtualCluster(*objects, plugins=[plugin], **options)


def pod(name, due=None):
    made = make_pod(name).label("tenant", name[0])
    return made if due is None else made.annotation(DUE, due)


def node(name="n1"):
    return make_node(name).capacity(cpu="64", memory="64Gi", pods="500")


class Heard(Instrument):
    def __init__(self):
        self.broke_in = []

    def plugin_broke(self, plugin, method, bug):
        self.broke_in.append((plugin, method))


@pytest.mark.parametrize("plugin", [ByDue, ByDueKey, Tenants])
@pytest.mark.parametrize("at", range(6))
def test_the_pod_without_a_key_is_told_and_the_others_are_placed(plugin, at):
    cluster = cluster_of(plugin)
    for number in range(6):
        cluster.put(pod(f"x{number}", None if number == at else str(number)))
    cluster.put(node())
    cluster.run()
    assert [name for name, where in cluster.nodes_of().items() if not where] == [f"x{at}"]
    (condition,) = cluster.pod(f"x{at}").status.conditions
    assert condition.reason == "SchedulerError"
    assert condition.message.startswith('running QueueSort plugin "ByDue": KeyError: ')
    assert "test_broken_order.py:" in condition.message
    cluster.put(pod(f"x{at}", "7"))
    cluster.advance(30.0)
    assert set(cluster.nodes_of().values()) == {"n1"}


def test_keys_that_do_not_compare_name_the_plugin_and_both_pods():
    heard = Heard()
    cluster = cluster_of(MixedKeys, node(), instrument=heard)
    for name, due in (("x1", "3"), ("x2", None), ("x3", "3"), ("x4", None)):
        cluster.put(pod(name, due))
    cluster.run()
    said = cluster.pod("x2").status.conditions[0].message
    assert said.startswith('running QueueSort plugin "ByDue": TypeError: ') and "test_broken_order.py:" in said
    assert "of pod default/x2 does not compare with that of default/x1" in said
    assert ("ByDue", "sort_key") in heard.broke_in
    cluster.advance(30.0)  # once the others have gone, nothing is left that they do not compare with
    assert set(cluster.nodes_of().values()) == {"n1"}


def test_an_answer_that_is_none_is_told_as_well():
    cluster = cluster_of(OddAnswer, node(), pod("a"), pod("odd"), pod("z")).run()
    assert cluster.nodes_of() == {"a": "n1", "odd": "", "z": "n1"}
    assert "but True or False is expected" in cluster.pod("odd").status.conditions[0].message


def test_a_pod_without_a_key_is_not_placed_in_a_run_of_alike_pods():
    """Pods that are like the one before are placed without an attempt of their own where they may be (`let_bind`)."""
    cluster = cluster_of(ByDueKey, *[pod(f"x{number}", "1") for number in range(8)], node(), node("n2"))
    cluster.core.let_bind(cluster.bind_at_once)
    cluster.step()
    cluster.put(pod("x8"))
    cluster.run()
    assert [name for name, where in cluster.nodes_of().items() if not where] == ["x8"]


def test_a_gang_comes_when_a_member_has_its_turn():
    """A member without a key must not bring its gang to the front of the queue."""
    gates = {"GenericWorkload": True, "GangScheduling": True}
    cluster = cluster_of(ByDueKey, make_pod_group("g", min_count=2), gates=gates)
    for name, due in (("g-1", None), ("g-2", "9")):
        cluster.put(pod(name, due).group("g"))
    cluster.put(pod("first", "1"))
    cluster.put(node())
    cluster.step()
    assert set(cluster.nodes_of().values()) == {""}
    assert "KeyError" in cluster.pod("g-1").status.conditions[0].message
    cluster.step()
    assert cluster.nodes_of() == {"g-1": "", "g-2": "", "first": "n1"}
    assert set(cluster.run().nodes_of().values()) == {"n1"}


def test_a_pod_without_a_key_is_told_before_anybody_s_turn():
    cluster = cluster_of(Tenants, *[pod(f"a{number}", "1") for number in range(3)], pod("z"), node())
    cluster.step()
    assert cluster.pod("z").status.conditions[0].reason == "SchedulerError"


@pytest.mark.parametrize("seed", range(10))
def test_the_first_pod_comes_first_after_some_have_lost_their_place(seed):
    """Pods whose keys do not compare lose their place long after they were queued, inside a heap's own moves."""
    rng = random.Random(seed)
    keys = {}
    plugin = SimpleNamespace(name="P", less=None, sort_key=lambda queued: keys[queued.pod.uid])
    order = QueueOrder(SimpleNamespace(name="P", sort_key=plugin, queue_sort=plugin))
    heap, marked = PodHeap(order, count(1), order), 0
    for number in range(300):
        if rng.random() < 0.6 or not len(heap):
            queued = QueuedPod(make_pod(f"p{number}").info(), 0.0)
            keys[queued.pod.uid] = rng.randrange(50) if rng.random() < 0.9 else rng.choice(["", (1,)])
            heap.push(queued)
        elif rng.random() < 0.3:
            heap.remove(rng.choice([queued.pod.uid for queued in heap]))
        else:
            first = heap.ordered()[0]
            assert heap.peek() is first
            # No pod that compares with it comes before it, and none that has lost its place is left behind.
            rest = [queued for queued in heap if queued is not first]
            if first.sort_error is None:
                assert all(queued.sort_error is None for queued in rest)
                assert all(keys[queued.pod.uid] >= keys[first.pod.uid] for queued in rest)
            marked += first.sort_error is not None
            assert heap.pop() is first
    assert marked > 3


def chaos(rng, has_key, has_tenants):
    """Return a plugin that breaks whenever it is asked, until it is `calm`."""

    class Chaos:
        name = "Chaos"
        calm = False

        def __init__(self, args, handle):
            pass

        def _may_break(self):
            if not Chaos.calm and rng.random() < 0.2:
                raise rng.choice([RuntimeError, KeyError, SystemExit, TypeError])("chaos")

        def less(self, a, b):
            self._may_break()
            return a.pod.name < b.pod.name

        def pre_enqueue(self, pod):
            self._may_break()
            return unschedulable("closed") if not Chaos.calm and rng.random() < 0.1 else None

        def filter(self, state, pod, node):
            return unschedulable("not now") if not Chaos.calm and rng.random() < 0.4 else None

        def events_to_register(self):
            return [ClusterEventWithHint(ClusterEvent(kind, Action.ALL), self._hint) for kind in ("Node", "Pod")]

        def _hint(self, pod, old, new):
            self._may_break()
            return QueueingHint.QUEUE if Chaos.calm else rng.choice([QueueingHint.QUEUE, QueueingHint.SKIP])

        if has_key:

            def sort_key(self, queued):
                self._may_break()
                return rng.choice([1, "one", 2.0, (1,)]) if not Chaos.calm else queued.pod.name

        if has_tenants:

            def tenant_of(self, queued):
                self._may_break()
                return queued.pod.name[-1]

            def next_tenant(self, heads):
                self._may_break()
                return next(iter(heads))

    return Chaos


def check_places(cluster):
    """Each pod without a node is in exactly one place."""
    core = cluster.core
    check_queue(core.queue)
    queued = [each.pod.uid for each in core.queue]
    assert len(queued) == len(set(queued))
    places = {*queued, *core.queue.in_flight, *(waiting.pod.uid for waiting in core.waiting)}
    pending = {
        each.metadata.uid for (kind, _), each in cluster.objects.items() if kind == "Pod" and not each.spec.node_name
    }
    assert places == pending
    for heap in (core.queue.active, core.queue.backoff):
        assert {each.pod.uid for each in heap.ordered()} == {each.pod.uid for each in heap}


@pytest.mark.parametrize("has_key", [False, True])
@pytest.mark.parametrize("has_tenants", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_every_pod_is_in_one_place_whatever_is_raised(seed, has_key, has_tenants):
    rng = random.Random(f"{seed} {has_key} {has_tenants}")
    plugin = chaos(rng, has_key, has_tenants)
    cluster = VirtualCluster(node(), plugins=[plugin])
    for step in range(60):
        act = rng.random()
        pods = sorted(key for kind, key in cluster.objects if kind == "Pod")
        if act < 0.5 or not pods:
            cluster.put(pod(f"p{step}"))
        elif act < 0.6:
            cluster.delete("Pod", rng.choice(pods))
        elif act < 0.75:
            found = rng.choice(pods).partition("/")[2]
            if not cluster.pod(found).spec.node_name:
                cluster.put(pod(found).label("step", str(step)))
        elif act < 0.8:
            cluster.put(node().label("step", str(step)))
        elif act < 0.85:
            mark = cluster.core.queue.remember() if not len(cluster.core.queue.in_flight) else None
            if mark is not None:
                cluster.core.queue.rewind(mark, cluster.now, 0.0)
        elif act < 0.9:
            cluster.restart()
        check_places(cluster)
        if rng.random() < 0.4:
            cluster.step()
            check_places(cluster)
        if rng.random() < 0.3:
            cluster.advance(rng.choice([0.0, 1.0, 12.0]))
            check_places(cluster)
    plugin.calm = True
    cluster.put(node().label("step", "the last"))  # which may help those that the plugin itself has kept out
    cluster.advance(700.0)
    assert set(cluster.nodes_of().values()) == {"n1"}
