"""The page about NodeResourceTopologyMatch says what happens: its documents are taken from there."""

import re
from pathlib import Path

import yaml

from berth.testing import VirtualCluster, make_node
from berth_plugins.numa.topology import TOPOLOGIES
from packages.plugins.tests.topologies import NAME, NodeResourceTopologyMatch, guaranteed

PAGE = (Path(__file__).parents[3] / "docs/plugins/node-resource-topology-match.md").read_text()


def test_the_pod_of_the_page_waits_and_is_told_what_the_page_says():
    config, report = (yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
    found = VirtualCluster(plugins={NAME: NodeResourceTopologyMatch}, config=config)
    found.put(make_node("worker-1").capacity(cpu="10", memory="60Gi"))
    found.put(TOPOLOGIES.read(report))
    pod = guaranteed("p", cpu="8").scheduler("topology-aware")
    found.put(pod)
    assert found.run().nodes_of() == {"p": ""}
    words = " ".join(PAGE.split())
    (event,) = found.events("FailedScheduling")
    assert event.partition(" preemption")[0].startswith("0/1 nodes are available: 1 cannot align container.")
    assert "0/1 nodes are available: 1 cannot align container." in words
    (plugin,) = [each.plugin for each in found.core.profiles["topology-aware"].plugins if each.name == NAME]
    (sentence,) = plugin.explain_rejection(pod.info())
    assert sentence in words
    table = found.core.cache.table
    assert plugin.lesser_requests(pod.info(), table.view(table.row_of["worker-1"])) == {"cpu": 6000}
