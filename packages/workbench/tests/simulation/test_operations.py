"""What a change does to a cluster, built so that the outcome follows from the construction."""

import re

import msgspec
import pytest

from berth.api.codec import decode
from berth.core.builders import expression, make_node, make_pod
from berth_workbench.simulation.changes import ChangeError, parse_flag, read_step
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.operations import carry_out
from berth_workbench.simulation.scale import note_manifests, refuse_awaited
from berth_workbench.simulation.site import Site
from berth_workbench.simulation.workloads import WorkloadManifest, expand
from berth_workbench.snapshot.documents import Document

ZONE = "topology.kubernetes.io/zone"


def node(name, zone="", cpu="4", pods="110", **labels):
    made = make_node(name).capacity(cpu=cpu, pods=pods).label("kubernetes.io/hostname", name).labels(labels)
    return (made.label(ZONE, zone) if zone else made).build()


def pod(name, on="", cpu="1", owner=("ReplicaSet", "rs"), labels=None):
    made = make_pod(name).request(cpu=cpu).labels(labels or {"app": "web"})
    if owner:
        made.owned_by(*owner)
    return (made.node(on) if on else made).build()


def budget(least, app="web"):
    return decode(
        "PodDisruptionBudget",
        {
            "metadata": {"name": "pdb", "namespace": "default", "uid": "pdb"},
            "spec": {"selector": {"matchLabels": {"app": app}}, "minAvailable": least},
        },
    )


def workload(kind, name="web", **spec):
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c"}]}}
    manifest = {
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template, **spec},
    }
    return Document(kind, msgspec.json.encode(manifest), "test.yaml")


def site_of(*objects, documents=()):
    cluster = SimulatedCluster(objects)
    cluster.settle()
    return Site(cluster, documents)


def done(site, flag, text):
    carry_out(site, parse_flag(flag, text))
    return site.cluster.placements


def reasons(site):
    return sorted((each.reason, each.name) for each in site.broken)


# -- drain ---------------------------------------------------------------------------------------------------------


def test_a_drain_moves_what_has_a_controller_loses_what_has_none_and_leaves_daemons_and_mirrors():
    mirror = make_pod("etcd").annotation("kubernetes.io/config.mirror", "x").node("n0").build()
    site = site_of(
        node("n0"),
        node("n1"),
        pod("web", "n0"),
        pod("bare", "n0", owner=None),
        pod("agent", "n0", owner=("DaemonSet", "agent")),
        mirror,
    )
    placements = done(site, "drain", "n0")
    assert placements == {"default/web": "n1", "default/agent": "n0", "default/etcd": "n0"}
    assert [(each.pod, each.node, each.by) for each in site.departures] == [
        ("default/bare", "n0", "drain of n0"),
        ("default/web", "n0", "drain of n0"),
    ]
    assert reasons(site) == [("PodLost", "default/bare")]
    assert site.cluster.nodes["n0"].spec.unschedulable


def test_a_drain_goes_on_as_replacements_become_healthy():
    """Three of four must be up: they have to move one at a time, and all can in the end."""
    site = site_of(node("n0"), node("n1"), *(pod(f"web-{n}", "n0") for n in range(4)), budget(3))
    assert set(done(site, "drain", "n0").values()) == {"n1"}
    assert site.broken == []
    assert len(site.departures) == 4


def test_a_drain_that_a_budget_blocks_is_broken_and_names_the_budget():
    """n1 has room for one more only: the second eviction would leave two of four where three are needed."""
    site = site_of(node("n0"), node("n1", cpu="1"), *(pod(f"web-{n}", "n0") for n in range(4)), budget(3))
    placements = done(site, "drain", "n0")
    # The first is replaced on n1, the second has nowhere to go and makes the budget tight.
    assert sorted(placements.values()) == ["", "n0", "n0", "n1"]
    assert reasons(site) == [("DrainBlocked", "default/pdb")] * 2
    assert "the drain of n0 waits for pod default/web-2: The disruption budget pdb needs 3" in site.broken[0].message


# -- evictions -----------------------------------------------------------------------------------------------------


def test_an_evicted_pod_is_replaced_by_its_controller_and_one_without_is_lost():
    site = site_of(node("n0"), pod("web-0", "n0"), pod("alone", "n0", owner=None))
    site.cluster.put(node("n1"))
    carry_out(site, parse_flag("cordon", "n0"))
    assert done(site, "evict", "web-0,default/alone") == {"default/web-0": "n1"}
    assert reasons(site) == [("PodLost", "default/alone")]
    assert [(each.pod, each.node, each.by) for each in site.departures] == [
        ("default/web-0", "n0", "eviction"),
        ("default/alone", "n0", "eviction"),
    ]


def test_a_daemon_that_is_evicted_comes_back_to_its_node_and_a_static_pod_cannot_be():
    agent = (
        make_pod("agent").owned_by("DaemonSet", "agent").require_node(fields=[expression("metadata.name", "In", "n0")])
    )
    static = make_pod("static").annotation("kubernetes.io/config.mirror", "x").owned_by("Node", "n0").node("n0").build()
    site = site_of(node("n0"), node("n1"), agent.node("n0").build(), static)
    assert done(site, "evict", "agent") == {"default/agent": "n0", "default/static": "n0"}
    assert len(site.departures) == 1
    with pytest.raises(ChangeError, match="evict static: default/static cannot be evicted: the kubelet of n0 runs it"):
        done(site, "evict", "static")


def test_budgets_refuse_evictions_that_come_at_once_and_allow_them_one_after_the_other():
    """Three of four have to be healthy: a second pod may go only once the first is replaced."""
    objects = [node("n0"), node("n1"), *(pod(f"web-{n}", "n0") for n in range(4)), budget(3)]
    site = site_of(*objects)
    carry_out(site, parse_flag("cordon", "n0"))
    placements = done(site, "evict", "web-0,web-1")
    assert [placements[f"default/web-{n}"] for n in range(4)] == ["n1", "n0", "n0", "n0"]
    assert reasons(site) == [("EvictionRefused", "default/pdb")]
    assert site.broken[0].message.startswith("pod default/web-1 is not evicted: The disruption budget pdb needs 3")
    done(site, "evict", "web-1")
    assert site.cluster.placements["default/web-1"] == "n1" and len(site.broken) == 1


def test_a_pod_to_evict_that_nobody_knows_or_several_have_the_name_of():
    site = site_of(node("n0"), pod("web-0", "n0"), make_pod("two", "a").build(), make_pod("two", "b").build())
    for text, problem in (
        ("web-9", "evict web-9: no pod 'web-9'; did you mean web-0?"),
        ("other/web-0", "evict other/web-0: no pod 'other/web-0'"),
        ("two", "evict two: there is a pod 'two' in several namespaces: a/two, b/two"),
    ):
        with pytest.raises(ChangeError, match=re.escape(problem)):
            done(site, "evict", text)


# -- nodes that come and go ----------------------------------------------------------------------------------------


def test_added_nodes_are_like_the_one_named_with_its_daemons_and_devices_but_without_its_troubles():
    model = (
        make_node("a")
        .capacity(cpu="8", pods="10")
        .labels({"pool": "x", "kubernetes.io/hostname": "a"})
        .taint("gpu", "yes")
        .taint("node.kubernetes.io/disk-pressure", "")
        .unschedulable()
        .build()
    )
    device = decode(
        "ResourceSlice",
        {
            "metadata": {"name": "s"},
            "spec": {"driver": "d", "nodeName": "a", "pool": {"name": "a"}, "devices": [{"name": "g"}]},
        },
    )
    agent = pod("agent-a", "a", cpu="0", owner=("DaemonSet", "agent"))
    site = site_of(model, agent, device)
    agent = site.cluster.pod("agent-a")
    site.cluster.put(
        msgspec.structs.replace(
            agent,
            spec=msgspec.structs.replace(
                agent.spec,
                tolerations=decode("Pod", {"spec": {"tolerations": [{"operator": "Exists"}]}}).spec.tolerations,
            ),
        )
    )
    placements = done(site, "addNodes", "2=a")
    added = [site.cluster.nodes[f"a-new-{number}"] for number in (1, 2)]
    assert [each.metadata.labels for each in added] == [
        {
            "pool": "x",
            "kubernetes.io/hostname": f"a-new-{number}",
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
        }
        for number in (1, 2)
    ]
    assert added[0].status.allocatable == model.status.allocatable
    assert [taint.key for taint in added[0].spec.taints] == ["gpu"]
    assert not added[0].spec.unschedulable
    assert placements == {
        "default/agent-a": "a",
        "default/agent-a-new-1": "a-new-1",
        "default/agent-a-new-2": "a-new-2",
    }
    slices = [obj.spec for (kind, _), obj in site.cluster.objects.items() if kind == "ResourceSlice"]
    assert [(each.node_name, each.pool.name) for each in slices] == [
        ("a", "a"),
        ("a-new-1", "a-new-1"),
        ("a-new-2", "a-new-2"),
    ]


def test_an_added_node_has_the_labels_that_a_kubelet_gives_it_whatever_the_node_has_that_it_is_like():
    bare = node("a")
    bare = msgspec.structs.replace(bare, metadata=msgspec.structs.replace(bare.metadata, labels={}))
    other = make_node("b").labels({"kubernetes.io/hostname": "b.local", "kubernetes.io/os": "windows"}).build()
    site = site_of(bare, other)
    done(site, "addNodes", "1=a")
    done(site, "addNodes", "1=b")
    labels = [site.cluster.nodes[f"{like}-new-1"].metadata.labels for like in "ab"]
    names = [{key.rpartition("/")[2]: value for key, value in each.items()} for each in labels]
    assert names == [
        {"hostname": "a-new-1", "os": "linux", "arch": "amd64"},
        {"hostname": "b-new-1", "os": "windows", "arch": "amd64"},
    ]


def test_a_pending_pod_goes_to_an_added_node():
    site = site_of(node("n0", cpu="1"), pod("a", "n0"), pod("b"))
    assert site.cluster.placements["default/b"] == ""
    assert done(site, "addNodes", "1=n0")["default/b"] == "n0-new-1"


def test_a_daemon_set_that_is_known_by_its_manifest_alone_gets_a_pod_on_an_added_node():
    site = site_of(node("n0"), documents=[workload("DaemonSet", "agent")])
    assert done(site, "addNodes", "1=n0") == {"default/agent-n0-new-1": "n0-new-1"}


def test_nodes_cannot_be_like_one_that_is_not_there():
    with pytest.raises(ChangeError, match="no node 'x' that others could be like"):
        done(site_of(node("n0")), "addNodes", "1=x")


def test_a_lost_zone_takes_its_nodes_and_pods_come_back_through_their_controllers():
    site = site_of(
        node("a0", "a"),
        node("b0", "b", cpu="2"),
        pod("web-0", "a0"),
        pod("web-1", "a0"),
        pod("web-2", "b0"),
        pod("bare", "a0", owner=None),
        pod("agent", "a0", cpu="0", owner=("DaemonSet", "agent")),
    )
    placements = done(site, "loseZone", "a")
    assert sorted(site.cluster.nodes) == ["b0"]
    assert sorted(placements) == ["default/web-0", "default/web-1", "default/web-2"]
    assert sorted(placements.values()) == ["", "b0", "b0"]
    assert reasons(site) == [("PodLost", "default/bare")]
    assert {each.by for each in site.departures} == {"loss of zone a"}


def test_a_volume_of_the_lost_zone_keeps_its_pod_pending_and_the_message_says_so():
    volume = decode(
        "PersistentVolume",
        {
            "metadata": {"name": "pv"},
            "spec": {
                "claimRef": {"namespace": "default", "name": "data", "uid": "c"},
                "nodeAffinity": {
                    "required": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]}]
                    }
                },
            },
        },
    )
    claim = decode(
        "PersistentVolumeClaim",
        {
            "metadata": {
                "name": "data",
                "namespace": "default",
                "uid": "c",
                "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
            },
            "spec": {"volumeName": "pv"},
        },
    )
    db = make_pod("db-0").owned_by("StatefulSet", "db").claim("data").node("a0").build()
    site = site_of(node("a0", "a"), node("b0", "b"), volume, claim, db)
    assert done(site, "loseZone", "a") == {"default/db-0": ""}
    assert "didn't match PersistentVolume's node affinity" in site.cluster.messages["default/db-0"]


def test_a_zone_that_is_not_there_is_told_with_those_that_are():
    with pytest.raises(ChangeError, match="lose zone z: no node is in a zone 'z'; zones are a, b"):
        done(site_of(node("a0", "a"), node("b0", "b")), "loseZone", "z")


# -- workloads -----------------------------------------------------------------------------------------------------


def deployed(replicas=2):
    """A Deployment's two pods as a cluster has them, and its ReplicaSet."""
    expansion = expand([workload("Deployment", replicas=replicas)])
    return [*expansion.objects, *expansion.pods]


@pytest.mark.parametrize("documents", [(), (workload("Deployment", replicas=2),)])
def test_scaling_a_deployment_up_makes_more_pods_like_those_it_has(documents):
    site = site_of(node("n0"), *deployed(), documents=documents)
    before = set(site.cluster.placements)
    after = done(site, "scale", "deployment/web=5")
    assert set(before) < set(after)
    assert set(after.values()) == {"n0"}
    assert len(after) == 5
    added = site.cluster.objects["Pod", next(key for key in after if key not in before)]
    known = site.cluster.objects["Pod", next(iter(before))]
    assert added.metadata.owner_references == known.metadata.owner_references
    assert added.metadata.labels == known.metadata.labels
    (replica_set,) = (obj for (kind, _), obj in site.cluster.objects.items() if kind == "ReplicaSet")
    assert replica_set.spec.replicas == 5


def test_scaling_down_takes_pending_pods_first_then_cheap_ones_then_those_that_share_a_node():
    pods = [
        pod("web-0", "n0"),
        pod("web-1", "n0"),
        pod("web-2", "n1"),
        pod("web-3", "n2"),
        pod("web-4", cpu="99"),
    ]
    cheap = make_pod("web-5").annotation("controller.kubernetes.io/pod-deletion-cost", "-5").request(cpu="1")
    site = site_of(*(node(f"n{n}") for n in range(3)), *pods, cheap.owned_by("ReplicaSet", "rs").node("n2").build())
    order = []
    for count in (5, 4, 3):
        before = set(site.cluster.placements)
        order += sorted(before - set(done(site, "scale", f"rs/rs={count}")))
    assert order == ["default/web-4", "default/web-5", "default/web-1"]


def test_of_pods_that_are_alike_the_youngest_goes():
    old = make_pod("a").created("2026-01-01T00:00:00Z").owned_by("ReplicaSet", "rs").node("n0").build()
    young = make_pod("b").created("2026-02-01T00:00:00Z").owned_by("ReplicaSet", "rs").node("n1").build()
    site = site_of(node("n0"), node("n1"), old, young)
    assert sorted(done(site, "scale", "rs/rs=1")) == ["default/a"]


def test_a_stateful_set_grows_and_shrinks_at_its_highest_ordinal_and_keeps_its_claims():
    claim = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    expansion = expand([workload("StatefulSet", "db", replicas=2, volumeClaimTemplates=[claim])])
    site = site_of(node("n0"), *expansion.objects, *expansion.pods)
    done(site, "scale", "sts/db=4")
    assert sorted(site.cluster.pods) == [f"default/db-{number}" for number in range(4)]
    added = site.cluster.pod("db-3")
    assert [volume.persistent_volume_claim.claim_name for volume in added.spec.volumes] == ["data-db-3"]
    assert added.metadata.labels["apps.kubernetes.io/pod-index"] == "3"
    assert ("PersistentVolumeClaim", "default/data-db-3") in site.cluster.objects
    assert sorted(done(site, "scale", "sts/db=1")) == ["default/db-0"]
    assert ("PersistentVolumeClaim", "default/data-db-3") in site.cluster.objects


def test_a_stateful_set_shrinks_at_its_highest_ordinal_even_where_a_lower_one_waits():
    pods = [make_pod(f"db-{number}").owned_by("StatefulSet", "db") for number in range(3)]
    pods[0].request(cpu="100")
    site = site_of(node("n0"), pods[0].build(), *(each.node("n0").build() for each in pods[1:]))
    assert sorted(done(site, "scale", "sts/db=2")) == ["default/db-0", "default/db-1"]


def test_a_workload_of_two_namespaces_must_be_named_with_its_own():
    there = make_pod("web-0", namespace="there").owned_by("ReplicaSet", "rs").node("n0").build()
    here = make_pod("web-0", namespace="here").owned_by("ReplicaSet", "rs").node("n0").build()
    site = site_of(node("n0"), there, here)
    with pytest.raises(ChangeError, match="there are several: here/rs, there/rs; write KIND/NAMESPACE/NAME"):
        done(site, "scale", "rs/rs=0")
    assert sorted(done(site, "scale", "rs/here/rs=0")) == ["there/web-0"]


def test_a_workload_that_the_cluster_does_not_have_is_remembered_for_the_manifests():
    site = site_of(node("n0"))
    done(site, "scale", "deployment/web=7")
    with pytest.raises(ChangeError, match="neither the cluster nor a manifest has a Deployment default/web"):
        refuse_awaited(site)
    note_manifests(site, [WorkloadManifest(workload("Deployment"))])
    assert site.replicas == {("Deployment", "default/web"): 7}
    refuse_awaited(site)


def test_a_scale_without_a_namespace_is_for_the_only_manifest_of_that_name_wherever_it_is():
    def manifest_in(namespace):
        given = workload("Deployment").manifest
        given = {**given, "metadata": {**given["metadata"], "namespace": namespace}}
        return WorkloadManifest(Document("Deployment", msgspec.json.encode(given), "test.yaml"))

    site = site_of(node("n0"))
    done(site, "scale", "deployment/web=7")
    with pytest.raises(ChangeError, match="there are several: pay/web, shop/web"):
        note_manifests(site, [manifest_in("shop"), manifest_in("pay")])
    note_manifests(site, [manifest_in("shop")])
    assert site.replicas == {("Deployment", "shop/web"): 7}


def test_a_deleted_deployment_takes_its_pods_and_replica_sets():
    site = site_of(node("n0"), *deployed())
    assert done(site, "delete", "deployment/web") == {}
    assert not [kind for kind, _ in site.cluster.objects if kind == "ReplicaSet"]
    with pytest.raises(ChangeError, match="delete deployment/web: the cluster has no Deployment of this name"):
        done(site, "delete", "deployment/web")


def test_the_old_pods_of_a_rollout_go_first_when_it_is_scaled_down():
    def replica_set(name, revision):
        return decode(
            "ReplicaSet",
            {
                "metadata": {
                    "name": name,
                    "namespace": "default",
                    "uid": name,
                    "annotations": {"deployment.kubernetes.io/revision": revision},
                    "ownerReferences": [{"kind": "Deployment", "name": "web", "uid": "d", "controller": True}],
                },
                "spec": {"replicas": 2},
            },
        )

    pods = [
        pod(f"{owner}-{n}", "n0", cpu="0", owner=("ReplicaSet", owner)) for owner in ("web-b", "web-a") for n in (0, 1)
    ]
    site = site_of(node("n0"), replica_set("web-a", "9"), replica_set("web-b", "10"), *pods)
    assert sorted(done(site, "scale", "deploy/web=3")) == ["default/web-a-0", "default/web-b-0", "default/web-b-1"]


# -- upgrades, taints, labels --------------------------------------------------------------------------------------


def test_a_pool_is_upgraded_node_by_node_and_everything_has_a_place_in_the_end():
    nodes = [node(f"n{n}", cpu="2", pool="a") for n in range(3)]
    site = site_of(*nodes, node("other"), *(pod(f"web-{n}", f"n{n // 2}") for n in range(4)))
    carry_out(site, read_step("upgrade", {"nodes": "pool=a", "labels": {"version": "2"}}, "steps[0]"))
    assert all(each.metadata.labels["version"] == "2" for name, each in site.cluster.nodes.items() if name != "other")
    assert not any(each.spec.unschedulable for each in site.cluster.nodes.values())
    assert all(site.cluster.placements.values())
    assert {each.by for each in site.departures} >= {"upgrade of n0", "upgrade of n1"}
    assert site.broken == []


def test_the_pods_of_a_node_that_is_upgraded_do_not_wait_for_it():
    site = site_of(node("n0", pool="a"), node("n1"), pod("web", "n0"))
    carry_out(site, read_step("upgrade", "n0", "steps[0]"))
    assert site.cluster.placements == {"default/web": "n1"}


def upgraded(**more):
    """Two full nodes, and a budget that lets nothing be missing."""
    pods = [pod(f"web-{n}", f"n{n // 2}") for n in range(4)]
    site = site_of(node("n0", cpu="2", pool="a"), node("n1", cpu="2", pool="a"), *pods, budget(3))
    carry_out(site, read_step("upgrade", {"nodes": "pool=a", **more}, "steps[0]"))
    return site


def test_an_upgrade_stops_at_a_drain_that_a_budget_blocks():
    site = upgraded()
    assert ("UpgradeStopped", "n0") in reasons(site)
    assert ("DrainBlocked", "default/pdb") in reasons(site)
    assert "1 more node is not upgraded" in site.broken[-1].message
    assert site.cluster.nodes["n0"].spec.unschedulable


def test_a_surge_makes_room_for_an_upgrade_and_goes_away_again():
    site = upgraded(surge=1)
    assert site.broken == []
    assert sorted(site.cluster.nodes) == ["n0", "n1"]
    assert all(site.cluster.placements.values())


def test_force_evicts_what_a_budget_protects_and_says_so():
    site = upgraded(force=True)
    assert {reason for reason, _ in reasons(site)} == {"DrainBlocked"}
    assert not any(each.spec.unschedulable for each in site.cluster.nodes.values())
    assert all(site.cluster.placements.values())


def test_a_no_execute_taint_evicts_who_does_not_tolerate_it_for_good():
    forever = make_pod("stays").tolerate("down", effect="NoExecute").owned_by("ReplicaSet", "rs").node("n0").build()
    site = site_of(node("n0"), node("n1"), forever, pod("goes", "n0"))
    assert done(site, "taint", "n0:down:NoExecute") == {"default/stays": "n0", "default/goes": "n1"}
    assert done(site, "untaint", "n0:down") == {"default/stays": "n0", "default/goes": "n1"}
    assert site.cluster.nodes["n0"].spec.taints == ()


def test_daemon_sets_follow_labels():
    document = workload("DaemonSet", "agent")
    manifest = document.manifest
    manifest["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "a"}
    document = Document("DaemonSet", msgspec.json.encode(manifest), "test.yaml")
    site = site_of(node("n0"), documents=[document])
    assert done(site, "label", "n0:pool=a") == {"default/agent-n0": "n0"}
    assert done(site, "label", "n0:pool-") == {}


def test_cordon_moves_nothing_and_keeps_new_pods_off():
    site = site_of(node("n0"), pod("web-0", "n0"))
    done(site, "cordon", "n0")
    site.cluster.put(pod("web-1"))
    assert done(site, "cordon", "n0") == {"default/web-0": "n0", "default/web-1": ""}
    assert done(site, "uncordon", "n0") == {"default/web-0": "n0", "default/web-1": "n0"}


def test_removed_nodes_ask_no_budget():
    site = site_of(node("n0"), node("n1"), *(pod(f"web-{n}", "n0") for n in range(4)), budget(4))
    assert set(done(site, "removeNodes", "n0").values()) == {"n1"}
    assert site.broken == []
