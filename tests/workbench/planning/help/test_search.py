"""What is said of a pod besides the changes: that it needs no help, what it waits for, what plugins of others said."""

import json
import shlex
from typing import ClassVar

import pytest
import yaml

from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.status import unresolvable, unschedulable
from berth.testing.invariants import check
from berth_workbench.planning.help.group import Group
from berth_workbench.planning.help.needs import Need, PodEdit
from berth_workbench.planning.help.result import Change, Help
from berth_workbench.planning.help.search import what_would_help
from berth_workbench.planning.help.sources import SOURCES
from berth_workbench.planning.help.words import lines_of, node_command, pod_command
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.snapshot.documents import Document
from packages.workbench.tests.asking import WatchUntil
from tests.workbench.planning.help.worlds import World

GANG = {"GenericWorkload": True, "GangScheduling": True}


def nodes(count=3, cpu="4"):
    return [make_node(f"n{i}").capacity(cpu=cpu, memory="8Gi") for i in range(count)]


def group(count):
    spec = {"schedulingPolicy": {"gang": {"minCount": count}}}
    return {"kind": "PodGroup", "metadata": {"name": "g", "namespace": "default", "uid": "g"}, "spec": spec}


def member(name):
    return make_pod(name).request(cpu="3").group("g")


def test_a_pod_that_fits_is_told_so():
    found = World(make_pod("p").request(cpu="1"), *nodes()).help()
    assert (found.state, found.fits_on, found.changes, found.never) == ("fits", ("n0", "n1", "n2"), (), False)
    assert list(lines_of(found)) == ["default/p: it fits on n0, n1, n2, and needs no help"]


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"storageClassName": "gone"}, "the StorageClass gone of the claim data does not exist"),
        (
            {"storageClassName": "gone", "volumeName": "disk"},
            "the PersistentVolume disk, which data is bound to, does not exist",
        ),
    ],
)
def test_what_a_claim_names_and_the_cluster_lacks_is_told(spec, told):
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default", "uid": "data"},
             "spec": spec}  # fmt: skip
    notes = World(make_pod("p").claim("data"), *nodes(), claim).help().notes
    assert [note for note in notes if "does not exist" in note] == [told]


def storage_class(name):
    return {"kind": "StorageClass", "metadata": {"name": name, "uid": name}, "provisioner": "disks.test",
            "volumeBindingMode": "WaitForFirstConsumer"}  # fmt: skip


def test_a_class_that_is_missing_comes_first_with_the_command_that_makes_it():
    """The scheduler says nothing but that the claim is unbound; the claim itself cannot be changed, only made anew."""
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default", "uid": "data"},
             "spec": {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"],
                      "resources": {"requests": {"storage": "1Gi"}}}}  # fmt: skip
    found = World(make_pod("p").claim("data"), *nodes(), claim, storage_class("slow")).help()
    first, *_ = lines_of(found, 200)
    assert first == "default/p: The StorageClass fast of the claim data does not exist."
    make, use = (each for each in found.changes if each.on == "cluster")
    assert make.patch["manifests"][0]["provisioner"] == "disks.test" and make.command.startswith("kubectl create -f -")
    assert use.command.startswith(
        "kubectl -n default get persistentvolumeclaim data -o yaml > persistentvolumeclaim.yaml;"
    )
    assert use.command.endswith(" > new.yaml; kubectl replace --force -f new.yaml")


def test_a_claim_of_devices_that_is_missing_is_made_of_a_class_that_is_there():
    device_class = {"kind": "DeviceClass", "metadata": {"name": "gpu", "uid": "gpu"}, "spec": {}}
    devices = {"kind": "ResourceSlice", "metadata": {"name": "s", "uid": "s"},
               "spec": {"driver": "d", "nodeName": "n1", "pool": {"name": "n1", "resourceSliceCount": 1},
                        "devices": [{"name": "d0"}]}}  # fmt: skip
    found = World(make_pod("p").resource_claim("g", "gpus"), *nodes(), device_class, devices).help()
    assert next(iter(lines_of(found))) == "default/p: The ResourceClaim gpus does not exist."
    assert found.changes[0].what == (
        "create the ResourceClaim gpus, which does not exist (put in the devices that are wanted)"
    )
    assert found.changes[0].fits_on == ("n1",)


def test_a_template_of_claims_that_is_missing_is_told_since_the_scheduler_only_waits():
    pod = make_pod("p").request(cpu="1").set_spec(resourceClaims=[{"name": "g", "resourceClaimTemplateName": "gpus"}])
    template = {"kind": "ResourceClaimTemplate", "metadata": {"name": "gpu", "namespace": "default"},
                "spec": {"spec": {}}}  # fmt: skip
    node = {"kind": "Node", "metadata": {"name": "n0"}}
    told = World(pod, *nodes()).help(documents=[Document(each["kind"], each, "") for each in (node, template)])
    assert told.missing == ("the ResourceClaimTemplate gpus does not exist; did you mean gpu?",)
    known = [Document(template["kind"], template | {"metadata": {"name": "gpus", "namespace": "default"}}, "")]
    assert World(pod, *nodes()).help(documents=known).missing == ()


@pytest.mark.parametrize("count", [62, 63, 64])
def test_a_search_adds_nodes_whether_or_not_the_table_of_nodes_is_full(count):
    """What was found of each node's needs is looked at again once nodes were added, of which the table has to grow."""
    full = [make_pod(f"w{at}").request(cpu="4").node(f"n{at}") for at in range(count)]
    workload = [make_pod(f"p{at}").request(cpu="3").owned_by("ReplicaSet", "p") for at in range(4)]
    found = World(workload[0], *nodes(count), *full, *workload[1:]).help()
    (more,) = (each for each in found.changes if each.kind == "node")
    assert more.what.startswith("add 4 nodes like n0 ") and more.still_pending == 0
    assert more.like == "n0"


def pooled(*names):
    return [make_node(name).label("pool", name[:3]).capacity(cpu="4", memory="8Gi", pods="9") for name in names]


def test_a_slip_of_the_keyboard_is_put_right_before_what_was_asked_for_is_dropped():
    found = World(make_pod("p").node_selector({"pool": "wbe"}), *pooled("web-0", "web-1", "big-0")).help()
    assert next(iter(lines_of(found))) == "default/p: No node has the label pool=wbe; did you mean pool=web?"
    meant, dropped, *_ = found.changes
    assert (meant.what, meant.fits_on) == ("ask for pool=web instead of pool=wbe", ("web-0", "web-1"))
    assert dropped.what == "drop pool=wbe from the nodeSelector"


def test_who_asks_for_tainted_nodes_is_told_to_tolerate_the_taint_first():
    """Whoever asks for nodes with GPUs wants to be there; who does not would rather not learn of their taint first."""
    nodes = [*pooled("web-0", "gpu-0")]
    nodes[1].taint("gpu", "present")
    asks = World(make_pod("p").node_selector({"pool": "gpu"}), *nodes).help()
    assert [each.kind for each in asks.changes][:2] == ["toleration", "nodeSelector"]
    by_affinity = make_pod("p").require_node({"key": "pool", "operator": "In", "values": ["gpu"]})
    assert World(by_affinity, *nodes).help().changes[0].kind == "toleration"
    plain = World(make_pod("p").request(cpu="4"), *nodes, make_pod("w").request(cpu="1").node("web-0")).help()
    assert next(each for each in plain.changes if each.kind == "toleration").cost == 1.0


def test_one_node_large_enough_for_those_who_come_first_is_less_than_several():
    """Others wait for a node as well, and would take the room of one that is made to measure."""
    full = make_pod("w").request(cpu="4").node("n0")
    others = [make_pod(f"a{i}").request(cpu="1").created("2026-01-01T00:00:00Z") for i in range(2)]
    big = make_pod("big").request(cpu="40").created("2026-01-02T00:00:00Z")
    found = World(big, *nodes(1), full, *others).help()
    (more,) = (each for each in found.changes if each.kind == "node")
    assert more.what == "add a node like n0, but with 42 CPU"
    assert more.like == ""
    assert (more.fits_on, more.gains) == (("n0-new-1",), ("default/a0", "default/a1"))


@pytest.mark.parametrize(("known", "told"), [(("other",), True), (("other", "default"), False), ((), False)])
def test_a_namespace_that_is_missing_is_told_where_any_are_known(known, told):
    namespaces = [{"kind": "Namespace", "metadata": {"name": name, "uid": name}} for name in known]
    notes = World(make_pod("p").request(cpu="9"), *nodes(), *namespaces).help().notes
    assert ("the namespace default does not exist" in notes) is told


def test_a_pod_that_runs_is_told_so():
    world = World(make_pod("p").request(cpu="1").node("n1"), *nodes())
    assert (world.help().state, world.help().fits_on) == ("runs", ("n1",))


def test_a_member_whose_group_has_too_little_room_is_helped_with_the_whole_group():
    full = make_pod("w").request(cpu="4").node("n0")
    world = World(member("p"), *nodes(), full, group(3), member("q"), member("r"), gates=GANG)
    cluster = world.cluster()
    found = world.help(cluster)
    assert (found.state, found.group, found.pods) == (
        "pending", "PodGroup/default/g", ("default/p", "default/q", "default/r"))  # fmt: skip
    assert found.message.startswith("2 of 3 have a place, and none is bound before 3 have (minCount); default/p has")
    gone = next(change for change in found.changes if change.kind == "podsGone")
    assert (gone.patch, gone.fits_on) == ({"pods": ["default/w"]}, ("n0", "n1", "n2"))
    check(cluster.core)
    assert cluster.core.cache.state_of("default/q") is None, "a member was left on a node"
    assert world.after(gone).placed() != ""


def test_a_complete_group_needs_no_help():
    world = World(member("p"), *nodes(), group(3), member("q"), member("r"), gates=GANG)
    assert world.help().state == "fits"


def test_terminating_pods_are_waited_for():
    going = [make_pod(f"w{i}").request(cpu="4").node(f"n{i}").terminating() for i in range(2)]
    small = make_pod("small").request(cpu="1").node("n2").terminating()
    staying = make_pod("w2").request(cpu="3").node("n2")
    found = World(make_pod("p").request(cpu="3"), *nodes(), *going, small, staying).help()
    first = found.waits_for[0]
    assert (first.is_enough, first.plugin) == (True, "")
    assert first.pods in (("default/w0",), ("default/w1",)), "one of them is enough"
    assert not found.never


def test_pods_that_end_by_themselves_are_waited_for():
    busy = [make_pod(f"w{i}").request(cpu="4").node(f"n{i}") for i in range(3)]
    world = World(make_pod("p").request(cpu="3"), *nodes(), *busy)
    found = world.help(ending={"default/w1": "at noon"})
    assert found.waits_for[0].pods == ("default/w1",)
    assert found.waits_for[0].what == "default/w1 to leave, which ends at its deadline, at noon"


def test_events_that_wake_the_pod_are_named():
    busy = [make_pod(f"w{i}").request(cpu="4").node(f"n{i}") for i in range(3)]
    found = World(make_pod("p").request(cpu="3"), *nodes(), *busy).help()
    assert {"NodeResourcesFit"} == {each.plugin for each in found.waits_for if each.plugin}
    assert any(each.what.startswith("Pod: deleted") for each in found.waits_for)


def test_preemption_that_will_help_by_itself_is_named():
    busy = [make_pod(f"w{i}").request(cpu="4").node(f"n{i}").priority(i) for i in range(3)]
    world = World(make_pod("p").request(cpu="3").priority(9), *nodes(), *busy)
    cluster = world.cluster()
    before = cluster.rng.getstate()
    found = world.help(cluster)
    (preempting,) = [each for each in found.waits_for if each.plugin == "DefaultPreemption"]
    assert (preempting.pods, preempting.is_enough) == (("default/w0",), True)
    assert cluster.rng.getstate() == before


def test_a_budget_that_forbids_everything_is_named():
    busy = [make_pod(f"w{i}").label("app", "db").request(cpu="4").node(f"n{i}") for i in range(3)]
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "db", "namespace": "default", "uid": "db"},
        "spec": {"selector": {"matchLabels": {"app": "db"}}},
        "status": {"disruptionsAllowed": 0},
    }
    found = World(make_pod("p").request(cpu="3"), *nodes(), *busy, budget).help()
    assert not [change for change in found.changes if change.kind == "podsGone"]
    assert any("a disruption budget stands against" in note for note in found.notes)
    assert not found.never, "who may evict is one thing, whether there is room another"


def test_daemons_stay_since_they_would_come_back():
    daemons = [make_pod(f"d{i}").owned_by("DaemonSet", "d").request(cpu="3").node(f"n{i}") for i in range(3)]
    others = [make_pod(f"w{i}").request(cpu="1").node(f"n{i}") for i in range(2)]
    small = World(make_pod("p").request(cpu="1"), *nodes(2), *daemons[:2], *others).help()
    assert [change.patch for change in small.changes if change.kind == "podsGone"] == [{"pods": ["default/w0"]}]
    assert not small.never
    large = World(make_pod("p").request(cpu="2"), *nodes(2), *daemons[:2], *others).help()
    assert large.never, "the daemons are not to be evicted"
    assert not [change for change in large.changes if change.kind == "podsGone"]


# --- plugins of others ------------------------------------------------------------------------------------------------


class RackFilter:
    """Rejects nodes without a rack; no source of needs knows it."""

    name: ClassVar[str] = "RackFilter"

    def __init__(self, args, handle):
        pass

    def filter(self, state, pod, node):
        return None if "rack" in node.node.metadata.labels else unschedulable("no rack")


class BlackFridayFilter(RackFilter):
    """Rejects pods that are not blessed."""

    name: ClassVar[str] = "BlackFridayFilter"

    def filter(self, state, pod, node):
        return None if pod.spec.host_users is False else unresolvable("frozen until Monday")


def custom(plugin, *objects):
    """A cluster with a plugin beside the default ones."""
    made = VirtualCluster(plugins=[plugin])
    return SimulatedCluster([each.build() for each in objects], config=made.config, registry=made.registry)


def test_what_a_plugin_of_others_said_is_told_and_nodes_that_pass_it_are_named():
    cluster = custom(RackFilter, *nodes(), make_node("r").capacity(cpu="4").label("rack", "1"),
                     make_pod("w").request(cpu="4").node("r"))  # fmt: skip
    found = what_would_help(cluster, make_pod("p").request(cpu="1").build())
    assert found.said == ("plugin RackFilter said of 3 nodes: no rack",)
    by_kind = {change.kind: change for change in found.changes}
    assert (by_kind["label"].fits_on, by_kind["label"].also_on) == (("n0",), ("n1", "n2")), "as the node that passes"
    assert by_kind["podsGone"].patch == {"pods": ["default/w"]}
    assert by_kind["node"].patch["manifests"][0]["metadata"]["labels"]["rack"] == "1"
    assert any("any change in the cluster (RackFilter)" in each.what for each in found.waits_for)


def test_a_source_for_a_new_plugin_offers_its_own_edits():
    class Blessing:
        plugins = frozenset({"BlackFridayFilter"})

        def needs(self, question):
            def bless(document):
                document["spec"]["hostUsers"] = False

            failing = question.failing({}, "BlackFridayFilter")
            yield Need(("blessing",), "BlackFridayFilter", failing, pod_edits=(PodEdit("bless", "bless it", bless),))

    pod = make_pod("p").request(cpu="1").build()
    without = what_would_help(custom(BlackFridayFilter, *nodes()), pod)
    assert (without.changes, without.said) == ((), ("plugin BlackFridayFilter said of 3 nodes: frozen until Monday",))
    found = what_would_help(custom(BlackFridayFilter, *nodes()), pod, sources=(*SOURCES, Blessing()))
    assert [(change.kind, change.patch) for change in found.changes] == [("bless", {"spec": {"hostUsers": False}})]


class BrokenFilter(RackFilter):
    """Breaks on every node."""

    name: ClassVar[str] = "BrokenFilter"

    def filter(self, state, pod, node):
        raise ValueError("no such rack")


class BrokenPreFilter(RackFilter):
    """Breaks before any node is looked at."""

    name: ClassVar[str] = "BrokenPreFilter"

    def pre_filter(self, state, pod):
        raise ValueError("no such rack")


@pytest.mark.parametrize("plugin", [BrokenFilter, BrokenPreFilter])
def test_a_plugin_that_breaks_is_told_and_breaks_nothing(plugin):
    found = what_would_help(custom(plugin, *nodes()), make_pod("p").request(cpu="1").build())
    assert found.state == "pending"
    assert "no such rack" in found.message
    assert found.changes == ()


UNREADABLE = {"matchExpressions": [{"key": "a", "operator": "Nope", "values": ["x"]}]}


@pytest.mark.parametrize(
    "pod",
    [
        make_pod("p").request(cpu="1").pod_anti_affinity("kubernetes.io/hostname", UNREADABLE),
        make_pod("p").request(cpu="1").pod_affinity("kubernetes.io/hostname", UNREADABLE),
        make_pod("p").request(cpu="1").spread("kubernetes.io/hostname", UNREADABLE),
        make_pod("p").request(cpu="1").require_node({"key": "a", "operator": "Nope"}),
        make_pod("p").request(cpu="1").set_spec(affinity={"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}),
    ],
    ids=["anti-affinity", "affinity", "spread", "node affinity", "no terms"],
)  # fmt: skip
def test_what_nobody_can_read_is_given_up_or_told(pod):
    other = make_pod("w").request(cpu="1").node("n0").pod_anti_affinity("kubernetes.io/hostname", UNREADABLE)
    world = World(pod, *nodes(), other)
    found = world.help()
    assert found.state == "pending"
    for change in found.changes:
        assert world.after(change).placed() in change.fits_on, change.what


def test_a_cluster_without_nodes():
    found = World(make_pod("p").request(cpu="1")).help()
    assert (found.state, found.changes, found.never, found.notes) == (
        "pending",
        (),
        True,
        ("the cluster has no nodes",),
    )


# --- bounds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trials", range(1, 40, 3))
def test_a_search_that_is_cut_short_says_so_and_leaves_the_cluster_as_it_was(trials):
    busy = [make_pod(f"w{i}").label("app", "w").request(cpu="3").node(f"n{i}") for i in range(3)]
    pod = make_pod("p").request(cpu="3").label("app", "w").spread("kubernetes.io/hostname", {"app": "w"})
    world = World(pod, *nodes(), *busy)
    cluster = world.cluster()
    found = world.help(cluster, max_trials=trials)
    check(cluster.core)
    assert found.trials <= trials
    assert found.is_complete == (found.trials < trials)
    whole = world.help()
    assert {change.what for change in found.changes} <= {change.what for change in whole.changes}
    if not found.is_complete:
        assert "ended at its bound" in "\n".join(lines_of(found))


def test_a_stopped_search_keeps_what_it_has():
    """However early it is stopped: at some point it has found the first change, and not yet the others."""
    world = World(make_pod("p").request(cpu="9"), *nodes())
    seen = []
    for most in range(1, 40):
        asked = []
        found = world.help(watch=WatchUntil(lambda _, asked=asked, most=most: asked.append(None) or len(asked) >= most))
        seen.append(([change.kind for change in found.changes], found.is_complete))
    assert (["requests"], False) in seen
    assert seen[-1] == (["requests", "node"], True)


def test_more_taints_than_are_looked_at_are_told():
    tainted = [make_node(f"n{i}").capacity(cpu="4").taint(f"t{i}") for i in range(40)]
    found = World(make_pod("p").request(cpu="1"), *tainted).help()
    assert not found.is_complete
    assert {change.kind for change in found.changes} == {"toleration", "taint", "node"}


def test_an_unknown_priority_class_is_an_error():
    pod = make_pod("p").request(cpu="1").set_spec(priorityClassName="nope").build()
    with pytest.raises(ValueError, match="no PriorityClass with name nope"):
        what_would_help(World(make_pod("q"), *nodes()).cluster(), pod)


@pytest.mark.parametrize("is_tainted", [True, False])
def test_the_report_fits_eighty_columns(is_tainted):
    pod, tainted = make_pod("p", "a-namespace").request(cpu="1"), nodes()
    if not is_tainted:
        pod.node_selector({"example.com/another-key": "another-value"})
    for i, node in enumerate(tainted if is_tainted else ()):
        node.taint(f"example.com/a-rather-long-key-{i}", "and-a-value")
    lines = list(lines_of(World(pod, *tainted).help()))
    assert max(map(len, lines)) <= 80
    assert any("kubectl" in line for line in lines)


def command_for(pod, *documents):
    """The command of the first change, where the pod is in the cluster."""
    return World(pod, *nodes(), *documents).help().changes[0].command


def test_commands_patch_what_can_be_patched():
    selecting = make_pod("web-1").label("app", "web").request(cpu="1").node_selector({"disk": "ssd"})
    assert command_for(selecting.copy()).startswith("kubectl -n default get pod web-1 -o yaml > pod.yaml; ")
    replica = selecting.copy().owned_by("ReplicaSet", "web-5f7").label("pod-template-hash", "5f7")
    patch = '{"spec":{"template":{"spec":{"nodeSelector":{"disk":null}}}}}'
    assert command_for(replica) == f"kubectl -n default patch deployment web --type strategic -p '{patch}'"
    ordinal = selecting.copy().owned_by("StatefulSet", "web")
    assert command_for(ordinal) == (
        f"kubectl -n default patch statefulset web --type strategic -p '{patch}' && kubectl -n default delete pod web-1"
    ), "a StatefulSet in its default order waits for a pod that is not ready, however long"
    gated = make_pod("web-1").request(cpu="1").gate("quota")
    assert command_for(gated).startswith("kubectl -n default patch pod web-1 --type strategic -p '")


def test_what_a_stranger_has_named_is_one_word_of_the_command():
    hostile = "x; touch /tmp/owned #"
    found = World(make_pod("web").node_selector({"disk": hostile}), *nodes(2)).help()
    labelled = next(change for change in found.changes if change.kind == "label")
    assert f"disk={hostile}" in shlex.split(labelled.command)


@pytest.mark.parametrize(("namespace", "wanted"), [("default", "urgent"), ("kube-system", "system-cluster-critical")])
def test_classes_of_the_system_are_for_the_system(namespace, wanted):
    """The tenant that is evicted finds another place, where the others may not go."""
    tenant = make_pod("tenant").request(cpu="4").node("n0").priority(0).owned_by("ReplicaSet", "t", uid="t")
    elsewhere = make_node("n1").capacity(cpu="4").taint("tenants")
    classes = [
        {"kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in (("system-cluster-critical", 2_000_000_000), ("urgent", 2_000_000_001))
    ]
    found = World(
        make_pod("web", namespace).request(cpu="4"), *nodes(1), elsewhere, tenant.tolerate("tenants"), *classes
    ).help()
    (change,) = [each for each in found.changes if each.kind == "priority"]
    assert change.patch["spec"]["priorityClassName"] == wanted
    assert (change.moves, change.leaves) == (("default/tenant",), ())


def test_a_priority_that_only_moves_the_problem_is_not_offered():
    tenant = make_pod("tenant").request(cpu="4").node("n0").priority(0).owned_by("ReplicaSet", "t", uid="t")
    high = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    found = World(make_pod("web").request(cpu="4"), *nodes(1), tenant, high).help()
    assert {change.kind for change in found.changes} == {"node"}


def report_with(command):
    change = Change("pod", "x", {}, ("n",), "strategic", "", "x", 1.0, command)
    return Help("default/p", "pending", "m", (change,))


def unfolded(lines):
    """The words of the command that is printed, as a shell reads them."""
    text = "\n".join(lines)
    return shlex.split(text.removeprefix("    $ ").replace("\\\n", ""))


@pytest.mark.parametrize(
    "hostile",
    [
        "a b " * 40,
        "it's 'quoted' -p 'x",
        "x -p 'not json' <<< 'more",
        "{node} $(id) " * 12,
        "-p",
        'say "no" \\ ' * 10,
        "key: 'va''l #" * 9,
    ],
)
@pytest.mark.parametrize("width", [40, 80])
def test_a_folded_command_is_the_same_words(hostile, width):
    pod = Group(make_pod(hostile).request(cpu="9").build())
    patch = {"spec": {"nodeSelector": {hostile: None}, "x": [hostile, "it's"], "n": "12"}}
    commands = [
        pod_command(pod, "nodeSelector", "strategic", patch),
        pod_command(pod, "toleration", "strategic", patch),
        pod_command(pod, "toleration", "json", [{"op": "remove", "path": "/x"}]),
        node_command(hostile, "merge", patch),
        f"kubectl create -f - <<< {shlex.quote(json.dumps(patch))}",
        f"kubectl label nodes {shlex.quote(hostile)} {shlex.quote(f'{hostile}=x')} --overwrite",
    ]
    for command in commands:
        printed = list(lines_of(report_with(command), width))
        begin = next(index for index, line in enumerate(printed) if line.startswith("    $ "))
        words, wanted = unfolded(printed[begin:]), shlex.split(command)
        assert len(words) == len(wanted)
        for word, want in zip(words, wanted, strict=True):
            assert word == want or yaml.safe_load(word) == json.loads(want)


def test_a_name_with_control_characters_is_in_no_command():
    printed = "\n".join(lines_of(report_with(node_command("n\x1b]0;a\x07", "merge", {}))))
    assert "kubectl" not in printed
    assert "No command" in printed


def test_a_label_that_looks_like_the_place_of_the_node_stays_a_label():
    pod = make_pod("web").request(cpu="1").node_selector({"a {node}": "x"})
    name = "n; touch owned #"
    found = World(pod, make_node(name).capacity(cpu="4")).help()
    (labelled,) = [change for change in found.changes if change.kind == "label"]
    assert shlex.split(labelled.command) == ["kubectl", "label", "nodes", name, "a {node}=x", "--overwrite"]


def test_an_added_node_has_a_host_name_of_its_own_whatever_those_that_are_there_are_called():
    """On clouds the host name of a node may be a part of its name; two replicas that keep apart by it need two."""
    node = make_node("ip-1.internal").capacity(cpu="4", memory="8Gi").label("kubernetes.io/hostname", "ip-1")
    replicas = [
        make_pod(name).label("app", "a").request(cpu="1").pod_anti_affinity("kubernetes.io/hostname", {"app": "a"})
        for name in ("a", "b")
    ]
    found = World(replicas[1], node, replicas[0].node("ip-1.internal")).help()
    assert "add a node like ip-1.internal" in " ".join(change.what for change in found.changes)
