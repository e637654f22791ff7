"""Manifests are applied: what is new is created, what has changed is rolled out, what has not is only scaled."""

import msgspec
import pytest

from berth.core.builders import make_node
from berth_workbench.simulation.changes import ChangeError
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.rollouts import apply
from berth_workbench.simulation.site import Site
from berth_workbench.simulation.workloads import expand
from berth_workbench.snapshot.documents import Document


def workload(kind="Deployment", name="web", image="old", cpu="1", **spec):
    container = {"name": "c", "image": image, "resources": {"requests": {"cpu": cpu}}}
    manifest = {
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
            **spec,
        },
    }
    return Document(kind, msgspec.json.encode(manifest), "test.yaml")


def site_of(*running, cpu="4", nodes=1, knows_manifests=True):
    made = [make_node(f"n{number}").capacity(cpu=cpu, pods="110").build() for number in range(nodes)]
    expansion = expand(running, nodes=made)
    cluster = SimulatedCluster([*made, *expansion.objects, *expansion.pods])
    cluster.settle()
    assert all(cluster.placements.values())
    return Site(cluster, running if knows_manifests else ())


def images(site):
    return sorted((pod.spec.containers[0].image, bool(pod.spec.node_name)) for pod in site.cluster.pods.values())


@pytest.mark.parametrize("knows_manifests", [True, False])
def test_a_template_that_has_not_changed_is_only_scaled(knows_manifests):
    site = site_of(workload(replicas=2), knows_manifests=knows_manifests)
    before = set(site.cluster.pods)
    apply(site, [workload(replicas=4)])
    assert before < set(site.cluster.pods)
    assert images(site) == [("old", True)] * 4
    assert site.departures == []


@pytest.mark.parametrize("knows_manifests", [True, False])
def test_a_changed_template_replaces_all_pods_within_surge_and_unavailability(knows_manifests):
    """The node is full with four pods; by default one of four may be missing, so that the rollout gets through."""
    site = site_of(workload(replicas=4), knows_manifests=knows_manifests)
    apply(site, [workload(replicas=4, image="new")])
    assert images(site) == [("new", True)] * 4
    assert len(site.departures) == 4
    assert {each.by for each in site.departures} == {"rollout of Deployment default/web"}
    assert site.broken == []


def test_another_affinity_is_another_template_though_only_the_pods_tell_of_the_old_one():
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "other"}}}
    away = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    container = {"name": "c", "image": "old", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"affinity": away, "containers": [container]}}
    site = site_of(workload(replicas=1), knows_manifests=False)
    apply(site, [workload(replicas=1, template=template)])
    assert len(site.departures) == 1


def test_a_rollout_that_may_miss_no_pod_gets_stuck_on_a_full_cluster():
    strategy = {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    site = site_of(workload(replicas=4))
    apply(site, [workload(replicas=4, image="new", strategy=strategy)])
    assert images(site) == [("new", False)] + [("old", True)] * 4
    (broken,) = site.broken
    assert (broken.kind, broken.name, broken.reason) == ("Deployment", "default/web", "RolloutStuck")
    assert "0 of 4 new pods have a node, and 4 old pods may not go" in broken.message
    assert "Insufficient cpu" in broken.message


def test_new_pods_that_fit_nowhere_leave_as_many_old_ones_as_must_be_available():
    site = site_of(workload(replicas=4))
    apply(site, [workload(replicas=4, image="new", cpu="9")])
    assert images(site).count(("old", True)) == 3  # one of four may be unavailable
    assert [each.reason for each in site.broken] == ["RolloutStuck"]


def test_recreate_takes_all_old_pods_away_first():
    site = site_of(workload(replicas=4))
    apply(site, [workload(replicas=4, image="new", strategy={"type": "Recreate"})])
    assert images(site) == [("new", True)] * 4


def test_a_stateful_set_is_rolled_out_from_its_highest_ordinal_and_stops_where_one_does_not_fit():
    site = site_of(workload("StatefulSet", replicas=3), cpu="3")
    apply(site, [workload("StatefulSet", replicas=3, image="new")])
    assert images(site) == [("new", True)] * 3
    apply(site, [workload("StatefulSet", replicas=3, image="newest", cpu="2")])
    assert site.cluster.pod("web-2").spec.node_name == ""
    assert images(site) == [("new", True)] * 2 + [("newest", False)]
    assert [each.reason for each in site.broken] == ["RolloutStuck"]


def test_a_daemon_set_is_rolled_out_on_every_node():
    site = site_of(workload("DaemonSet"), nodes=3)
    apply(site, [workload("DaemonSet", image="new")])
    assert images(site) == [("new", True)] * 3
    assert site.cluster.placements == {f"default/web-n{n}": f"n{n}" for n in range(3)}


def test_what_the_cluster_does_not_have_is_created_as_often_as_it_was_scaled_to():
    site = site_of()
    site.replicas["Deployment", "default/web"] = 2
    expansion = apply(site, [workload(replicas=9)])
    assert len(expansion.pods) == 2
    assert images(site) == [("old", True)] * 2


def test_a_pod_that_is_there_already_is_refused():
    pod = Document("Pod", b'{"kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c"}]}}', "p.yaml")
    site = site_of()
    apply(site, [pod])
    with pytest.raises(ChangeError, match="Pod default/p is in the cluster already"):
        apply(site, [pod])


def test_a_claim_that_is_bound_is_not_taken_back_by_its_manifest():
    claim = Document(
        "PersistentVolumeClaim",
        b'{"kind":"PersistentVolumeClaim","metadata":{"name":"d","namespace":"default"},"spec":{"volumeName":"pv"}}',
        "c.yaml",
    )
    unbound = Document("PersistentVolumeClaim", claim.body.replace(b'"volumeName":"pv"', b""), "c.yaml")
    site = site_of()
    apply(site, [claim])
    apply(site, [unbound])
    assert site.cluster.objects["PersistentVolumeClaim", "default/d"].spec.volume_name == "pv"


@pytest.mark.parametrize(
    ("strategy", "new"),
    [({"rollingUpdate": {"partition": 2}}, ["web-2"]), ({"type": "OnDelete"}, []), ({}, ["web-0", "web-1", "web-2"])],
)
def test_a_stateful_sets_update_strategy_says_which_pods_are_replaced(strategy, new):
    """Partitions and OnDelete: "Update strategies" of StatefulSets in the documentation of Kubernetes."""
    site = site_of(workload("StatefulSet", replicas=3))
    apply(site, [workload("StatefulSet", replicas=3, image="new", updateStrategy=strategy)])
    replaced = [pod for pod in site.cluster.pods.values() if pod.spec.containers[0].image == "new"]
    assert sorted(pod.metadata.name for pod in replaced) == new


def test_old_pods_that_are_not_healthy_go_only_as_far_as_pods_may_be_missing():
    """cleanupUnhealthyReplicas in pkg/controller/deployment/rolling.go."""
    site = site_of(workload(replicas=4))
    apply(site, [workload(replicas=4, image="new", cpu="9")])
    before = images(site)
    apply(site, [workload(replicas=4, image="newest", cpu="9")])
    assert images(site).count(("old", True)) == before.count(("old", True)) == 3
    assert len(site.broken) == 2


def test_ordinals_that_a_rollout_adds_are_of_the_new_template():
    site = site_of(workload("StatefulSet", replicas=2))
    apply(site, [workload("StatefulSet", replicas=4, image="new")])
    assert images(site) == [("new", True)] * 4


def test_daemons_that_fit_nowhere_are_replaced_up_to_as_many_as_may_be_missing():
    """maxUnavailable is 1 where nobody says; the others keep running as they were."""
    site = site_of(workload("DaemonSet"), nodes=4)
    apply(site, [workload("DaemonSet", image="new", cpu="9")])
    assert images(site) == [("new", False), *[("old", True)] * 3]
    assert [each.reason for each in site.broken] == ["RolloutStuck"]
    site = site_of(workload("DaemonSet"), nodes=4)
    apply(
        site, [workload("DaemonSet", image="new", cpu="9", updateStrategy={"rollingUpdate": {"maxUnavailable": "50%"}})]
    )
    assert images(site) == [*[("new", False)] * 2, *[("old", True)] * 2]
    site = site_of(workload("DaemonSet"), nodes=4)
    apply(site, [workload("DaemonSet", image="new", updateStrategy={"type": "OnDelete"})])
    assert images(site) == [("old", True)] * 4


def test_what_was_applied_is_what_the_next_manifest_is_compared_with():
    """What no struct holds, such as a variable, makes a rollout; replicas that nobody writes are left as they are."""
    first = msgspec.json.decode(workload(replicas=2).body)
    second = msgspec.json.decode(workload().body)
    second["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "A", "value": "b"}]
    site = site_of()
    apply(site, [Document("Deployment", msgspec.json.encode(first), "a")])
    before = set(site.cluster.pods)
    del first["spec"]["replicas"]
    apply(site, [Document("Deployment", msgspec.json.encode(second), "a")])
    assert not before & set(site.cluster.pods)
    assert len(site.cluster.pods) == 1  # it was written, and is not any more: kubectl takes it out
    site = site_of(workload(replicas=3))
    apply(site, [Document("Deployment", msgspec.json.encode(second), "a")])
    assert len(site.cluster.pods) == 3
