"""What is kept of rows with nominated pods equals what is found when all of them are asked about anew."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.core.builders import make_node, make_pod, make_service
from berth.core.virtual_cluster import VirtualCluster
from berth.engine.columns import DependencySet
from berth.engine.overlays import MAX_STATUSES, Overlay
from berth.framework.cycle_state import CycleState
from berth.framework.diagnosis import RejectedNodes
from berth.framework.promises import Dependency, Objects
from berth.framework.status import error, unschedulable
from berth.state.cache import Cache
from berth.state.nominator import Nominator
from berth.state.objects import ObjectStore
from berth.state.views import Memory
from packages.scheduler.tests.plugins.preemption.small_clusters import preemptor, small_node, small_pod, stir
from tests.effort import examples

FULL = unschedulable("full").by("Fit")


def said_beside_nominated(cluster, pod):
    """What is said of each node with its nominated pods counted in; None where PreFilter rejects the pod."""
    profile, state, table = cluster.core.profiles["default-scheduler"], CycleState(), cluster.core.cache.table
    if profile.run_pre_filter(state, pod).status is not None:
        return None
    overlay = profile.run_filter(state, pod, table, table.valid).overlay
    rows = [row for _, rows in overlay for row in rows.tolist()]
    assert len(rows) == len(set(rows)), "a row is there twice"
    return {table.names[row]: status for status, rows in overlay for row in rows.tolist()}


def nominate(cluster, rng, index):
    nodes = [key for kind, key in cluster.objects if kind == "Node"]
    promised = small_pod(rng, f"promised-{index}", (0, 3, 10)).info()
    cluster.core.nominator.nominate(promised, rng.choice(nodes))


@settings(deadline=None, max_examples=examples(100))
@given(seed=st.integers(0, 2**32))
def test_replicas_are_told_the_same_as_if_nothing_were_kept(seed):
    rng = random.Random(seed)
    cluster = VirtualCluster(*(small_node(rng, index) for index in range(9)))
    for index in range(12):
        cluster.put(small_pod(rng, f"run-{index}", (0, 3)).node(f"n{rng.randrange(9)}"))
        nominate(cluster, rng, index)
    made = preemptor(rng)
    pods = [cluster.core.intake.info(made.build())]
    for index in range(6):
        made.metadata.update({"name": f"new-{index}", "uid": f"default/new-{index}"})
        pods.append(cluster.core.intake.info(made.build()))
    for index, pod in enumerate(pods):
        if index == 4:
            cluster.core.nominator.nominate(pod, "n1")
        kept = said_beside_nominated(cluster, pod)
        with cluster.core.memos.switched(on=False):
            assert kept == said_beside_nominated(cluster, pod)
        for _ in range(rng.randrange(3)):
            nominate(cluster, rng, rng.randrange(12)) if rng.random() < 0.5 else stir(rng, cluster)


def test_a_pod_need_not_leave_room_for_itself_as_others_of_its_shape_must():
    cluster = VirtualCluster(*(make_node(f"n{index}").capacity(cpu="4", memory="8Gi", pods="9") for index in range(5)))
    one, other = (cluster.core.intake.info(make_pod(name).request(cpu="3").build()) for name in ("one", "other"))
    for index in range(5):
        cluster.core.nominator.nominate(make_pod(f"promised-{index}").request(cpu="1").info(), f"n{index}")
    cluster.core.nominator.nominate(one, "n1")
    for _ in range(3):
        assert said_beside_nominated(cluster, other).keys() == {"n1"}
        assert said_beside_nominated(cluster, one) == {}


class Rows:
    """A table of four nodes, on all of which the pod is rejected."""

    def __init__(self):
        self.cache, self.objects, self.nominator = Cache(), ObjectStore(), Nominator()
        self.memory = Memory(self.cache, self.objects, self.nominator)
        self.table = self.cache.table
        for name in "abcd":
            self.cache.put_node(make_node(name).capacity(cpu="4", pods="10").build())
        self.rows = self.table.rows()
        needs = frozenset({Dependency.NODE, Dependency.PODS_ON_NODE, Objects(("Service",))})
        self.overlay = Overlay([DependencySet(needs, "Fit")])
        self.says = dict.fromkeys("abcd", FULL)
        assert self.asked() == "abcd"

    def row(self, name):
        return self.table.row_of[name]

    def asked(self, rows=None):
        """Read the overlay; return the rows about which it had to ask."""
        asked = []

        def ask(rows):
            asked.extend(rows.tolist())
            said = {name: status for name, status in self.says.items() if self.row(name) in asked}
            return [RejectedNodes(status, np.array([self.row(name)])) for name, status in said.items()]

        self.memory.bring(self.overlay)
        self.told = self.overlay.rejected(self.rows if rows is None else rows, ask)
        return "".join(sorted(self.table.names[row] for row in asked))


CHANGES = {
    "a pod comes": lambda found: found.cache.add_pod(make_pod("p").request(cpu="1").node("b").info()),
    "the node changes": lambda found: found.cache.put_node(make_node("b").capacity(cpu="8", pods="10").build()),
    "a pod is nominated": lambda found: found.nominator.nominate(make_pod("p").info(), "b"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_only_rows_that_have_changed_are_asked_about_again(change):
    found = Rows()
    for number in range(100):
        found.table.row_for(f"without-a-node-{number}")  # so that one in four is many
    assert found.asked() == "abcd"
    assert found.asked() == ""
    CHANGES[change](found)
    del found.says["b"]
    assert found.asked() == "b"
    assert found.asked() == ""
    assert [(status, len(rows)) for status, rows in found.told] == [(FULL, 3)]


def test_nothing_is_known_on_another_basis_or_after_too_many_reasons():
    found = Rows()
    found.objects.put("Pod", make_pod("beside").build())
    assert found.asked() == ""
    found.objects.put("Service", make_service("s", {}))
    assert found.asked() == "abcd"
    for number in range(MAX_STATUSES):
        found.cache.add_pod(make_pod(f"p{number}").node("a").info())
        found.says["a"] = unschedulable(f"reason {number}")
        assert found.asked() == "a"
    found.cache.add_pod(make_pod("one too many").node("a").info())
    assert found.asked() == "abcd"


def test_an_error_is_for_once():
    found = Rows()
    found.cache.touch("c")
    found.says["c"] = error("broken")
    assert found.asked() == "c"
    assert [len(rows) for _, rows in found.told] == [3, 1]
    assert found.asked() == "c"


def test_nothing_is_known_of_a_table_that_has_grown():
    found = Rows()
    assert found.asked() == ""
    for index in range(found.table.capacity):
        found.table.row_for(f"without-a-node-{index}")  # as a pod on a node that is not there takes one
    assert found.asked() == "abcd"
    last = np.array([found.table.capacity - 1])
    found.asked(last)
    assert found.told == []
