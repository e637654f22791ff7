"""QOSSort, PodState and NodeResourcesAllocatable in a scheduler; expectations from upstream's READMEs."""

import pytest

from berth.testing import VirtualCluster, make_node, make_pod
from berth_plugins.node_resources_allocatable import NodeResourcesAllocatable
from berth_plugins.pod_state import PodState
from berth_plugins.qos_sort import QOSSort


def node(name, cpu="4", memory="8Gi"):
    return make_node(name).capacity(cpu=cpu, memory=memory)


def test_pods_of_one_priority_go_by_quality_of_service(config):
    best_effort, burstable = make_pod("best-effort"), make_pod("burstable").request(cpu="2")
    guaranteed, urgent = make_pod("guaranteed").request(cpu="2", memory="1Gi"), make_pod("urgent").priority(5)
    guaranteed.spec["containers"][0]["resources"]["limits"] = {"cpu": "2", "memory": "1Gi"}
    cluster = VirtualCluster(plugins={"QOSSort": QOSSort}, config=config("QOSSort", sorts=True))
    for pod in (best_effort, burstable, guaranteed, urgent):
        cluster.put(pod)
    queued = [each.pod.name for each in cluster.core.queue.active.ordered()]
    assert queued == ["urgent", "guaranteed", "burstable", "best-effort"]


@pytest.mark.parametrize(("mode", "chosen"), [("Least", "small"), ("Most", "large")])
def test_the_smallest_or_the_largest_node_is_preferred(mode, chosen, config):
    plugins = {"NodeResourcesAllocatable": NodeResourcesAllocatable}
    configured = config("NodeResourcesAllocatable", args={"mode": mode})
    cluster = VirtualCluster(node("large", cpu="16"), node("small"), plugins=plugins, config=configured)
    cluster.put(make_pod("p"))
    assert cluster.run().nodes_of() == {"p": chosen}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"mode": "Some"}, r'mode: Invalid value: "Some": invalid support ModeType'),
        (
            {"resources": [{"name": "cpu", "weight": 0}]},
            r"resources\[0\].weight: Invalid value: 0: resource weight of cpu should be a positive value, got :0",
        ),
        ({"modus": "Least"}, "modus"),
    ],
)
def test_wrong_args_are_refused_in_upstreams_words(args, words, config):
    plugins = {"NodeResourcesAllocatable": NodeResourcesAllocatable}
    with pytest.raises(ValueError, match=words):
        VirtualCluster(plugins=plugins, config=config("NodeResourcesAllocatable", args=args))


def test_nodes_that_pods_leave_are_preferred_to_others(config):
    leaving = make_pod("leaving").node("b")
    leaving.metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    plugins = {"PodState": PodState}
    cluster = VirtualCluster(node("a"), node("b"), node("c"), leaving, plugins=plugins, config=config("PodState"))
    cluster.put(make_pod("p"))
    assert cluster.run().nodes_of()["p"] == "b"


def test_allocatable_says_what_the_node_has_and_weighs(config):
    configured = config("NodeResourcesAllocatable", args={"mode": "Most", "resources": [{"name": "cpu", "weight": 2}]})
    plugins = {"NodeResourcesAllocatable": NodeResourcesAllocatable}
    cluster = VirtualCluster(node("small"), plugins=plugins, config=configured)
    found = cluster.core.profiles["default-scheduler"].plugins
    (plugin,) = [each.plugin for each in found if each.name == "NodeResourcesAllocatable"]
    table = cluster.core.cache.table
    assert plugin.explain_score(make_pod("p").info(), table.view(table.row_of["small"])) == [
        "in all it has 4000 cpu x2: a mean of 4000, and the most is best"
    ]
