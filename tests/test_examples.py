"""The examples run, and what they print is so."""

import runpy

from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.loader import plugins_named
from tests.paths import ROOT

EXAMPLES = ROOT / "examples"


def printed(name, capsys):
    """What an example prints, line by line."""
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out.splitlines()


def test_embedded(capsys):
    lines = printed("embedded.py", capsys)
    assert any(line.startswith("default/web goes to large") for line in lines), "the emptier node is preferred"
    assert any(line.startswith("default/database goes to small") for line in lines), "only that one has the label"
    assert "    large: NodeAffinity: node(s) didn't match Pod's node affinity/selector" in lines
    assert lines[-1] == "{'default/web': 'large', 'default/database': 'small', 'default/too-large': None}"


def test_capacity(capsys):
    """A node of 8 CPUs takes 4 replicas; a zone may have 4 more than the one with fewest.

    Zone c is full with 4, so the others take 8 each: 20. With a second node in c they are 8, 8 (zone b is full) and 12.
    """
    lines = printed("capacity.py", capsys)
    assert lines[0].startswith("20 replicas fit: ")
    assert "node(s) didn't match pod topology spread constraints" in lines[1]
    assert lines[2:] == [
        "one more node in zone a: 0 more replicas",
        "one more node in zone b: 0 more replicas",
        "one more node in zone c: 8 more replicas",
    ]


def test_the_plugin():
    """Of two nodes that cost 10 and 40 cents the first is taken; a budget of 5 is met by neither, until one is 4."""
    registry = plugins_named([f"{EXAMPLES / 'cheapest_node.py'}:CheapestNode"])
    plugin = registry.factory("CheapestNode")

    def node(name, cents):
        return make_node(name).capacity(cpu="8", pods="20").label("example.com/cents-per-hour", str(cents))

    cluster = VirtualCluster(node("dear", 40), node("cheap", 10), plugins=[plugin])
    cluster.put(make_pod("any").request(cpu="1"))
    cluster.put(make_pod("thrifty").label("example.com/most-cents-per-hour", "5"))
    cluster.run()
    assert cluster.nodes_of() == {"any": "cheap", "thrifty": ""}
    (condition,) = cluster.pod("thrifty").status.conditions
    assert "2 node(s) were beyond the pod's budget" in condition.message
    cluster.put(node("cheaper", 4))
    cluster.run()
    assert cluster.nodes_of()["thrifty"] == "cheaper"
