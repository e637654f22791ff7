"""Rejections that are kept and repaired are those that `rejected_rows` makes of the columns as they are."""

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.engine.columns import DependencySet, PluginColumn
from berth.engine.rejections import Rejections
from berth.framework.cycle_state import CycleState
from berth.framework.diagnosis import Diagnosis
from berth.framework.promises import Dependency, Promises
from berth.framework.status import Code, unschedulable
from berth.state.cache import Cache
from berth.state.nominator import Nominator
from berth.state.objects import ObjectStore
from berth.state.views import Memory
from tests.effort import examples

NODES = 40


def node(rng, index):
    made = make_node(f"n{index}").capacity(cpu=rng.choice("24"), pods="10").zone(rng.choice("abc"))
    if rng.random() < 0.3:
        made.taint("dedicated", "others")
    return made.unschedulable() if rng.random() < 0.2 else made


def change_some(rng, cluster):
    """Change, remove or load a few rows, or a good many."""
    for _ in range(rng.choice((0, 1, 2, 15))):
        index = rng.randrange(NODES)
        name, key = f"n{index}", f"default/r{index}"
        if ("Pod", key) in cluster.objects:
            cluster.delete("Pod", key)
        elif rng.random() < 0.4:
            cluster.put(make_pod(f"r{index}").node(name).request(cpu=rng.choice(("1", "3"))))
        elif rng.random() < 0.8 or ("Node", name) not in cluster.objects:
            cluster.put(node(rng, index))
        else:
            cluster.delete("Node", name)


def verdicts_on(cluster, pod):
    profile, table, state = cluster.core.profiles["default-scheduler"], cluster.core.cache.table, CycleState()
    profile.run_pre_filter(state, pod)
    return profile.run_filter(state, pod, table, table.valid)


def as_lists(groups):
    return [(status, rows.tolist()) for status, rows in groups]


def diagnosed(cluster, groups):
    table = cluster.core.cache.table
    found = Diagnosis(len(table), table.names.__getitem__)
    for status, rows in groups:
        found.add(status, rows)
    return found


@settings(deadline=None, max_examples=examples(40))
@given(seed=st.integers(0, 2**32))
def test_kept_rejections_are_those_of_the_columns(seed):
    rng = random.Random(seed)
    cluster = VirtualCluster(*[node(rng, index) for index in range(NODES)])
    info = cluster.core.intake.info
    pods = [
        info(make_pod("large").request(cpu="3").build()),
        info(make_pod("fits-nowhere").request(cpu="5").build()),
        info(make_pod("elsewhere").request(cpu="1").node_selector({"topology.kubernetes.io/zone": "a"}).build()),
    ]
    asked = 0
    for _ in range(12):
        change_some(rng, cluster)
        for pod in pods:
            verdicts = verdicts_on(cluster, pod)
            counted, expected = verdicts.counted(), list(verdicts.rejected())
            if counted is None:
                continue
            asked += 1
            table = cluster.core.cache.table
            kept, fresh = Diagnosis(len(table), table.names.__getitem__, counted), diagnosed(cluster, expected)
            assert as_lists(counted.groups) == as_lists(expected)
            assert kept.message() == fresh.message()
            assert (kept.unschedulable_plugins, kept.pending_plugins) == (
                fresh.unschedulable_plugins,
                fresh.pending_plugins,
            )
            curable = [rows for status, rows in expected if status.code is Code.UNSCHEDULABLE]
            assert counted.curable_rows.tolist() == sorted(np.concatenate([*curable, []]).tolist())
            assert verdicts_on(cluster, pod).counted() is counted, "nothing has changed since"
    assert asked >= 30


def test_what_was_counted_does_not_change_with_the_cluster():
    cluster = VirtualCluster(*[make_node(f"n{index}").capacity(cpu="2", pods="10") for index in range(3)])
    pod = cluster.core.intake.info(make_pod("large").request(cpu="2").build())
    for index in range(3):
        cluster.put(make_pod(f"r{index}").node(f"n{index}").request(cpu="1"))
    for _ in range(3):
        before = verdicts_on(cluster, pod).counted()
    cluster.delete("Pod", "default/r1")
    after = verdicts_on(cluster, pod).counted()
    assert [len(rows) for _, rows in before.groups] == [3]
    assert [len(rows) for _, rows in after.groups] == [2]
    assert before.words == " 3 Insufficient cpu."
    assert after.words == " 2 Insufficient cpu."


def test_words_that_come_with_a_repair_are_told_and_the_same_words_make_nothing_new():
    cache = Cache(capacity=4)
    for index in range(4):
        cache.put_node(make_node(f"n{index}").capacity(cpu="2").build())
    memory, runner = Memory(cache, ObjectStore(), Nominator()), Full()
    rejections = Rejections([PluginColumn(runner)])
    ask = lambda: memory.bring(rejections, (CycleState(), None)).counted()  # noqa: E731
    first = ask()
    assert first.words == " 4 full."
    for words in ("full", "quite full"):
        runner.words = words
        cache.touch("n0")
        assert (ask() is first) == (words == "full")
    assert ask().words == " 4 quite full."
    assert ask() is ask()


class Full:
    """Asks a plugin that rejects all nodes, in the words of the moment."""

    name, words, row_form = "One", "full", None
    needs = DependencySet(frozenset({Dependency.NODE, Dependency.PODS_ON_NODE}), "One")

    def ask(self, extra, state, pod, table, rows):
        words = self.words
        return np.ones(table.capacity, dtype=np.int32)[rows], lambda code: unschedulable(words)

    def lasts(self, extra):
        return True


class Refusing:
    """Rejects every node, after all others."""

    name = "Refusing"
    promises = Promises(filter_depends_on=frozenset({Dependency.NODE}))

    def __init__(self, args, handle):
        pass

    def signature(self, pod):
        return ()

    def filter(self, state, pod, node):
        return unschedulable("refused")


def test_pods_that_other_plugins_are_asked_about_are_not_told_their_reasons():
    """Of two workloads one is asked about by a filter before, which lets it pass and whose answers are not kept."""
    cluster = VirtualCluster(plugins=[Refusing])
    zone = "topology.kubernetes.io/zone"
    for index in range(3):
        cluster.put(make_node(f"n{index}").capacity(cpu="4", pods="10").zone("abc"[index]))
    plain = cluster.core.intake.info(make_pod("plain").request(cpu="1").build())
    spread = cluster.core.intake.info(make_pod("spread").request(cpu="1").spread(zone, {"app": "x"}).build())
    for _ in range(3):
        for pod in (plain, spread):
            verdicts = verdicts_on(cluster, pod)
            counted = verdicts.counted()
            told = [verdict.plugin for verdict in verdicts.by_plugin]
            assert ("PodTopologySpread" in told) == (pod is spread)
    assert counted is not None
    for pod in (plain, spread):
        counted = verdicts_on(cluster, pod).counted()
        assert (counted.words, set(counted.rejectors)) == (" 3 refused.", {"Refusing"})
