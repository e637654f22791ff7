"""What `check` says of two trees of manifests; the clusters are small enough that every number is counted by hand."""

import pytest

from berth.core.builders import make_pod
from berth_workbench.planning.check import check
from berth_workbench.simulation.situation import Situation
from berth_workbench.snapshot.documents import parse_manifests
from packages.workbench.tests.planning.test_survival import node, snapshot_of


def deployment(name, replicas, cpu="1", more="", template="", said=True):
    count = f"replicas: {replicas}, " if said else ""
    return f"""---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: shop}}
spec:
  {{{count}selector: {{matchLabels: {{app: {name}}}}}, {more}
   template: {{metadata: {{labels: {{app: {name}}}, {template}}}, spec: {{containers: [
     {{name: main, image: i, resources: {{requests: {{cpu: "{cpu}"}}}}}}]}}}}}}
"""


def quota(pods):
    return f"""---
apiVersion: v1
kind: ResourceQuota
metadata: {{name: few, namespace: shop}}
spec: {{hard: {{pods: "{pods}"}}}}
"""


def web(number):
    """A pod of a ReplicaSet of the Deployment web, as a cluster has it."""
    made = make_pod(f"web-1-{number}", namespace="shop").request(cpu="1").node("n1")
    return made.labels({"app": "web", "pod-template-hash": "1"}).owned_by("ReplicaSet", "web-1")


def asked(nodes, base, head, *others):
    cluster = snapshot_of([*nodes, *others])
    sides = [None if text is None else tuple(parse_manifests(text.encode(), "side")) for text in (base, head)]
    return check(Situation(cluster), *sides)


def rows(found):
    return {each.name: (each.difference, each.before, each.after, each.placed) for each in found.workloads}


TWO = (node("n1"), node("n2"))


def test_of_a_scale_it_is_told_how_many_have_a_place_what_the_others_lack_and_what_a_node_more_would_do():
    found = asked(TWO, deployment("web", 4), deployment("web", 10))
    assert rows(found) == {"shop/web": ("changed", 4, 10, 8)}
    assert (found.verdict, found.fits) == ("error", "no")
    said = "shop/web 4 → 10: 8 have a place; 2 lack 1 CPU. 1 more node like n1 takes them."
    assert [each.text for each in found.findings] == [said]
    assert found.requests == {"cpu": "+6"}


def test_what_is_new_gone_and_unchanged():
    base = deployment("old", 2) + deployment("same", 1) + deployment("less", 3)
    found = asked(TWO, base, deployment("same", 1) + deployment("less", 1) + deployment("new", 2))
    assert rows(found) == {
        "shop/less": ("changed", 3, 1, 1),
        "shop/new": ("new", 0, 2, 2),
        "shop/old": ("gone", 2, 0, 0),
    }
    assert (found.verdict, found.fits, found.findings) == ("ok", "now", ())
    assert found.requests == {"cpu": "-2"}


def test_what_is_gone_makes_room():
    assert asked(TWO, deployment("old", 8), deployment("new", 8)).fits == "now"
    assert asked(TWO, deployment("old", 8), deployment("old", 8) + deployment("new", 8)).fits == "no"


def test_a_label_of_the_workload_alone_and_the_order_of_objects_change_nothing():
    base = deployment("web", 4) + deployment("api", 1)
    relabelled = base.replace("metadata: {name: web,", "metadata: {name: web, labels: {chart: web-2},")
    assert asked(TWO, base, "---".join(reversed(relabelled.split("---")))).workloads == ()


def test_an_annotation_of_the_template_is_a_rollout_that_may_get_stuck():
    """Of 8 pods on 8 CPUs, one may be missing at a time, and two more are made: the default of 25 % each way."""
    tight = "strategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 1}},"
    base = deployment("web", 8, more=tight)
    found = asked(TWO, base, deployment("web", 8, more=tight, template="annotations: {checksum: b}"))
    assert rows(found) == {"shop/web": ("changed", 8, 8, 0)}
    said = "shop/web 8: the rollout is stuck when none has a place; the next one lacks 1 CPU. With 1 more node like n1"
    assert found.findings[0].text == f"{said} it gets through."
    assert asked(TWO, deployment("web", 8), deployment("web", 8, template="annotations: {checksum: b}")).fits == "now"


def test_how_many_nodes_a_rollout_takes_is_tried_with_the_whole_rollout():
    """The first new pod needs one more node, and the whole rollout more; what is told is tried, and one fewer fails."""
    tight = "strategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 1}},"
    found = asked(TWO, deployment("web", 8, more=tight), deployment("web", 4, cpu="4", more=tight))
    (added,) = found.more.nodes

    def fits(more):
        nodes = (*TWO, *(node(f"m{at}") for at in range(more)))
        return asked(nodes, deployment("web", 8, more=tight), deployment("web", 4, cpu="4", more=tight)).fits

    assert (found.fits, fits(added.count - 1), fits(added.count)) == ("no", "no", "now")


def test_more_nodes_may_be_like_one_that_the_change_itself_brings():
    """Eight pods of 30 CPUs each: a node takes two, so that the one of the change and three more take all."""
    big = """---
apiVersion: v1
kind: Node
metadata: {name: big}
status: {allocatable: {cpu: "64", memory: 64Gi, pods: "110"}}
"""
    tight = "strategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 1}},"
    found = asked(TWO, deployment("web", 8, more=tight), big + deployment("web", 8, cpu="30", more=tight))
    assert [(each.like, each.count) for each in found.more.nodes] == [("big", 3)]


def test_replicas_that_nobody_writes_are_the_autoscalers():
    running = [web(at) for at in range(3)]
    found = asked(TWO, deployment("web", 1, said=False), deployment("web", 1, said=False, cpu="2"), *running)
    assert rows(found)["shop/web"][1:3] == (3, 3)


def test_pods_of_others_that_make_way_are_a_warning_and_those_that_lose_their_place_an_error():
    high = """---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
"""
    important = deployment("web", 4).replace("containers:", "priorityClassName: high, containers:")
    low = deployment("batch", 6)
    found = asked(TWO, high + low, high + low + important)
    assert rows(found) == {"shop/batch": ("unchanged", 6, 6, 4), "shop/web": ("new", 0, 4, 4)}
    assert "shop/batch loses 2 of 6 pods to others: 2 lack 1 CPU" in found.findings[0].text
    large = important.replace("replicas: 4", "replicas: 1").replace('cpu: "1"', 'cpu: "4"')
    roomy = asked(
        (node("n1", cpu="4"), node("n2", cpu="2")), high + deployment("batch", 2), high + deployment("batch", 2) + large
    )
    assert rows(roomy) == {"shop/web": ("new", 0, 1, 1)}
    assert (roomy.fits, roomy.verdict) == ("afterPreemptions", "warning")
    assert "shop/web takes the place of" in roomy.findings[0].text


def test_what_the_api_server_refuses_does_not_fit_and_more_quota_lets_it_in():
    found = asked(TWO, quota(4) + deployment("web", 4), quota(4) + deployment("web", 6))
    assert rows(found) == {"shop/web": ("changed", 4, 6, 4)}
    assert "4 have a place; the API server refuses 2: exceeded quota: few" in found.findings[0].text
    assert found.more is None
    more = asked(TWO, quota(2) + deployment("web", 4), quota(6) + deployment("web", 4) + deployment("api", 1))
    assert (more.fits, rows(more)) == ("now", {"shop/api": ("new", 0, 1, 1)})
    none = asked(TWO, quota(2), deployment("web", 4))
    assert none.fits == "now"


def test_a_field_that_cannot_change_is_refused():
    other = deployment("web", 4).replace("matchLabels: {app: web}", "matchLabels: {app: web, tier: a}")
    other = other.replace("labels: {app: web}", "labels: {app: web, tier: a}")
    found = asked(TWO, deployment("web", 4), other)
    assert "spec.selector: field is immutable" in found.findings[0].text
    assert found.fits == "no"


@pytest.mark.parametrize(("replicas", "lost"), [(4, 0), (6, 2), (8, 4)])
def test_the_loss_of_a_zone_is_told_where_it_costs_more_than_before(replicas, lost):
    found = asked((node("n1", "a"), node("n2", "b")), deployment("web", 2), deployment("web", replicas))
    assert max((each.pods for each in found.zones), default=0) == lost
    assert found.verdict == ("warning" if lost else "ok")
    if lost:
        said = f"would then leave shop/web without {lost} of {replicas} (before: none)"
        assert len(found.findings) == 1 and said in found.findings[0].text


def test_without_a_base_the_cluster_is_what_there_was_before():
    running = [web(at) for at in range(2)]
    found = asked(TWO, None, deployment("web", 8) + deployment("api", 1), *running)
    assert found.fits == "no"
    assert {each.name for each in found.workloads} == {"shop/web", "shop/api"}


def test_what_the_loss_of_a_zone_costs_others_is_one_line():
    """Three of 2 CPUs each stand in two zones of 8 CPUs; a fourth and fifth take the room that a loss would need."""
    nodes = [node(f"n{at}", zone) for at, zone in enumerate("aabb")]
    base = "".join(deployment(f"old{at}", 2) for at in range(3))
    found = asked(nodes, base, base + deployment("new", 8))
    zones = {zone: [each for each in found.zones if each.zone == zone and each.name != "shop/new"] for zone in "ab"}
    worst = max(zones.values(), key=lambda some: sum(each.pods for each in some))
    others = [each for each in found.findings if each.name != "shop/new"]
    assert len(others) == 1
    assert others[0].text.startswith(f"losing {worst[0].zone} would then leave")
    if len(worst) > 1:
        assert f"{len(worst)} other workloads" in others[0].text
        assert f"without {sum(each.pods for each in worst)} pods more than before" in others[0].text
