"""The cluster in a few numbers, against counting by hand, and a trial as a picture, against the pods themselves."""

from hypothesis import given
from hypothesis import strategies as st

from berth.core.builders import make_node, make_pod
from berth.decisions.node_columns import copy_columns
from berth_workbench.page.overview import overview
from berth_workbench.planning.whatif import WhatIfRun
from berth_workbench.questions.moves import moves_of
from berth_workbench.simulation.changes import parse_flag
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.site import Site


@st.composite
def clusters(draw):
    """Nodes with their room, and pods on them: small numbers, so that much is full, over or just too small."""
    nodes = draw(
        st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(0, 5), st.booleans()), max_size=5)
    )
    pods = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=8)) if nodes else []
    return nodes, [(cpu, memory, draw(st.integers(0, len(nodes) - 1))) for cpu, memory in pods]


@given(clusters())
def test_what_is_usable_is_what_average_pods_can_have(made):
    nodes, pods = made
    cluster = SimulatedCluster([])
    for at, (cpu, memory, room, cordoned) in enumerate(nodes):
        node = make_node(f"n{at}").capacity(cpu=str(cpu), memory=str(memory), pods=str(room))
        cluster.put((node.unschedulable() if cordoned else node).build())
    for at, (cpu, memory, on) in enumerate(pods):
        cluster.put(make_pod(f"p{at}").request(cpu=str(cpu), memory=str(memory)).node(f"n{on}").build())
    found = overview(copy_columns(cluster.core.cache.table).columns())
    mean = [sum(pod[which] for pod in pods) / len(pods) for which in (0, 1)] if pods else [0, 0]
    more = 0
    for at, (cpu, memory, room, cordoned) in enumerate(nodes):
        here = [pod for pod in pods if pod[2] == at]
        free = [cpu - sum(pod[0] for pod in here), memory - sum(pod[1] for pod in here)]
        left = room - len(here)
        while not cordoned and any(mean) and left > 0 and free[0] >= mean[0] and free[1] >= mean[1]:
            free = [have - want for have, want in zip(free, mean, strict=True)]
            left, more = left - 1, more + 1
    by_name = {each.name: each for each in found.fills}
    assert abs(found.more - more) <= len(nodes), "repeated subtraction may lose the last one to rounding"
    if nodes:
        free = sum(max(0, cpu - sum(pod[0] for pod in pods if pod[2] == at)) for at, (cpu, *_) in enumerate(nodes))
        assert by_name["cpu"].free == 1000 * free
        assert by_name["cpu"].requested == 1000 * sum(pod[0] for pod in pods)
        assert by_name["cpu"].usable is None or by_name["cpu"].usable <= by_name["cpu"].free
    assert found.cordoned == sum(cordoned for *_, cordoned in nodes)


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
