"""One search for everything."""

from berth.core.builders import make_node, make_pod
from berth_workbench.snapshot.snapshot import Snapshot
from berth_workbench.sources.cluster_file import ClusterFileSource
from berth_workbench.sources.search import search
from packages.workbench.tests.sources.test_cluster_file import document


async def found(text):
    web = make_pod("web-1", "shop").label("pod-template-hash", "1").request(cpu="1").node("node-web")
    objects = [
        make_node("node-web").capacity(cpu="4", memory="8Gi", pods="10").label("pool", "webbed"),
        make_node("other").capacity(cpu="4", memory="8Gi", pods="10"),
        web.owned_by("ReplicaSet", "web-1"),
        make_pod("web", "shop").request(cpu="99"),
    ]
    source = ClusterFileSource("test", Snapshot([document(each.build()) for each in objects]))
    return [(hit.kind, hit.name, hit.href) for hit in await search(source, text)]


async def test_nodes_pools_pods_and_workloads_are_found_the_whole_name_first():
    assert await found(" WEB ") == [
        ("Deployment", "shop/web", "/workloads/Deployment/shop/web"),
        ("Pod", "shop/web", "/pods/shop/web"),
        ("Pool", "webbed", "/nodes?find=webbed"),
        ("Pod", "shop/web-1", "/pods/shop/web-1"),
        ("Node", "node-web", "/map?node=node-web"),
    ]
    assert await found("nothing") == [] and await found("  ") == []
    assert [name for _, name, _ in await found("deployment/WEB")] == ["shop/web"], "as kubectl has it"


async def test_running_pods_are_found_among_more_than_the_map_shows(monkeypatch):
    monkeypatch.setattr("berth.decisions.placements.CopiedPods.columns.__defaults__", ("", 1))
    assert {"shop/web", "shop/web-1"} <= {name for _, name, _ in await found("web")}
