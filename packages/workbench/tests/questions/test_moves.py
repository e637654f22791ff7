"""A trial as a picture, against the pods themselves."""

from berth.core.builders import make_node, make_pod
from berth.decisions.node_columns import copy_columns
from berth_workbench.planning.whatif import WhatIfRun
from berth_workbench.questions.moves import moves_of
from berth_workbench.simulation.changes import parse_flag
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.site import Site


def test_a_picture_has_every_node_before_and_after_and_every_pod_that_went():
    def node(name, zone):
        return make_node(name).capacity(cpu="4", memory="8Gi", pods="10").label("topology.kubernetes.io/zone", zone)

    def pod(name, on, cpu="1"):
        return make_pod(name).request(cpu=cpu).node(on).owned_by("ReplicaSet", "rs").build()

    bare = make_pod("bare").request(cpu="1").node("a1").build()
    cluster = SimulatedCluster([node("a1", "a").build(), node("b1", "b").build(), node("b2", "b").build()])
    for each in (pod("one", "a1"), pod("two", "a1", "3"), bare, pod("stays", "b1", "3")):
        cluster.put(each)
    before = copy_columns(cluster.core.cache.table).columns()
    run = WhatIfRun(Site(cluster))
    result = run.run([parse_flag("loseZone", "a"), parse_flag("addNodes", "1=b1")])
    found = moves_of(before, copy_columns(cluster.core.cache.table).columns(), result)
    number = {name: at for at, name in enumerate(found.names)}
    assert set(number) == {"a1", "b1", "b2", "b1-new1"} or len(number) == 4
    assert found.after[number["a1"]] is None and found.before[number["a1"]] == 1.25
    new = next(name for name in number if name not in ("a1", "b1", "b2"))
    assert found.before[number[new]] is None
    assert found.left[number["a1"]] == 3, "two that came back elsewhere, and one that nothing replaces"
    assert sum(found.came) == 2
    assert (number["a1"], -1, 1) in found.moves, "the bare pod goes nowhere"
    assert sum(count for source, target, count in found.moves if source == number["a1"] and target >= 0) == 2
    zones = [found.zones.names[of] for of in found.zones.of]
    assert zones[number["a1"]] == "a" and zones[number["b2"]] == "b"
