"""A trial that was taken back leaves no trace: neither in what the core remembers nor in what comes after it."""

import random

import pytest

from berth.core.builders import make_node, make_pod, make_service
from berth.core.undoable import HOUR_S, UndoableCluster
from berth.testing.invariants import check
from packages.scheduler.tests.support import with_profiles

NODES, APPS = [f"n{number}" for number in range(6)], ("x", "y")


class Lived:
    """A cluster to which random things happen."""

    def __init__(self, seed, **options):
        self.lots, self.births = random.Random(seed), 0
        profile = {"schedulerName": "default-scheduler"}
        self.cluster = UndoableCluster(seed=seed, config=with_profiles(profile), **options)
        for name in NODES[:4]:
            self.put_node(name)
        self.happen(6)

    def put_node(self, name):
        lots = self.lots
        node = make_node(name).capacity(cpu=lots.choice("24"), memory="8Gi", pods=lots.choice(("3", "9")))
        self.cluster.put(node.zone(lots.choice("ab")).label("disk", lots.choice(("ssd", "hdd"))))

    def put_pod(self):
        lots = self.lots
        self.births += 1
        app = lots.choice(APPS)
        pod = (
            make_pod(f"p{self.births}").uid(f"p{self.births}").label("app", app).request(cpu=lots.choice(("500m", "1")))
        )
        pod.priority(lots.choice((0, 0, 10)))
        if lots.random() < 0.2:
            pod.node_selector({"disk": "ssd"})
        if lots.random() < 0.2:
            pod.pod_anti_affinity("kubernetes.io/hostname", {"app": app})
        if lots.random() < 0.1:
            pod.node(lots.choice(NODES))
        if lots.random() < 0.1:
            pod.gate("hold")
        self.cluster.put(pod)

    def happen(self, count):
        for _ in range(count):
            self.happens()
        self.cluster.run()

    def happens(self):
        lots, objects = self.lots, self.cluster.objects
        act, pods = lots.randrange(10), sorted(key for kind, key in objects if kind == "Pod")
        if act < 5:
            for _ in range(lots.choice((1, 3))):
                self.put_pod()
        elif act == 5 and pods:
            self.cluster.delete("Pod", lots.choice(pods))
        elif act == 6:
            self.put_node(lots.choice(NODES))
        elif act == 7:
            name = lots.choice(NODES)
            if ("Node", name) in objects:
                self.cluster.delete("Node", name)
        elif act == 8:
            self.cluster.put(make_service(lots.choice("st"), {"app": lots.choice(APPS)}))
        else:
            self.cluster.advance(lots.choice((1.0, 12.0, 40.0)))
        if lots.random() < 0.5:
            self.cluster.run()

    def told(self):
        """All that can be told of the cluster but the time."""
        core, table = self.cluster.core, self.cluster.core.cache.table
        check(core)
        return {
            "objects": dict(self.cluster.objects),
            "order": [obj.metadata.name for obj in self.cluster.objects.in_order()],
            "rows": dict(table.row_of),
            "pods of rows": [list(table.pods[row]) for row in table.row_of.values()],
            "nodes in turn": list(table.tree.order()),
            "free": table._free[-3:],
            "queued": sorted((each.pod.key, each.attempts, sorted(each.unschedulable_plugins)) for each in core.queue),
            "waiting": list(core.queue.unschedulable),
            "active": core.queue.peek() and core.queue.peek().pod.key,
            "nominated": [(pod.key, name) for name in core.nominator.nodes() for pod in core.nominator.pods_on(name)],
            "stored": {kind: keys for kind, keys in core.objects.order().items() if keys},
            "random": self.cluster.rng.getstate(),
            "start": core.search.start_index,
            "known": sorted((pod.key, pod.node_name) for pod in core.intake.pods),
        }


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("seed", range(24))
def test_what_was_taken_back_is_as_it_was_and_what_follows_as_if_nothing_had_been(seed, at_once):
    tried, untried = Lived(seed), Lived(seed)
    for lived in (tried, untried) if at_once else ():
        lived.cluster.core.let_bind(lived.cluster.bind_at_once)
    for _ in range(3):
        lots = tried.lots.getstate()
        before, births, now = tried.told(), tried.births, tried.cluster.now
        tried.cluster.begin()
        assert tried.cluster.is_tried_on
        tried.happen(4)
        inner = tried.told() if seed % 2 else None
        if inner is not None:
            tried.cluster.begin()
            tried.happen(3)
            tried.cluster.undo()
            assert tried.told() == inner
        tried.cluster.undo()
        assert not tried.cluster.is_tried_on
        assert tried.told() == before
        assert (tried.cluster.now - now) % HOUR_S == 0 < tried.cluster.now - now
        tried.lots.setstate(lots)
        tried.births = births
        tried.happen(3)
        untried.happen(3)
        assert {**tried.told(), "free": 0} == {**untried.told(), "free": 0}


@pytest.mark.parametrize("seed", range(8))
def test_what_was_kept_is_part_of_the_trial_around_it(seed):
    lived = Lived(seed)
    before = lived.told()
    lived.cluster.begin()
    lived.happen(3)
    lived.cluster.begin()
    lived.happen(3)
    after = lived.told()
    lived.cluster.keep()
    assert lived.told() == after
    lived.cluster.undo()
    assert lived.told() == before
    lived.cluster.begin()
    lived.happen(2)
    after = lived.told()
    lived.cluster.keep()
    assert lived.told() == after


def test_all_trials_are_taken_back_at_once_and_what_they_touched_is_told():
    lived = Lived(3)
    lived.put_node("n1")
    lived.cluster.run()
    before = lived.told()
    for number in range(3):
        lived.cluster.begin()
        lived.cluster.put(make_pod(f"late-{number}").request(cpu="100m"))
        lived.cluster.run()
        assert lived.cluster.touched["Pod", f"default/late-{number}"] is None
    lived.cluster.undo_all()
    assert lived.told() == before
    lived.cluster.begin()
    node = lived.cluster.objects["Node", "n1"]
    lived.cluster.delete("Node", "n1")
    assert lived.cluster.touched == {("Node", "n1"): node}


@pytest.mark.parametrize("seed", range(8))
def test_a_copy_is_as_the_cluster_is_and_goes_on_as_it_does(seed):
    lived = Lived(seed)
    copy = Lived(seed)
    copy.cluster = UndoableCluster(seed=99, config=with_profiles({"schedulerName": "default-scheduler"}))
    lived.cluster.copy_into(copy.cluster)
    assert {**copy.told(), "free": 0} == {**lived.told(), "free": 0}
    copy.lots.setstate(lived.lots.getstate())
    copy.births = lived.births
    for each in (lived, copy):
        each.happen(4)
    assert copy.cluster.nodes_of() == lived.cluster.nodes_of()


def test_a_pod_whose_binding_waits_for_an_answer_is_queued_again():
    lived = Lived(5)
    before = lived.told()
    lived.cluster.answers_binds = False
    lived.cluster.begin()
    lived.cluster.put(make_pod("late").request(cpu="1m"))
    lived.cluster.run()
    assert lived.cluster.requests
    lived.cluster.undo()
    assert lived.told() == before
