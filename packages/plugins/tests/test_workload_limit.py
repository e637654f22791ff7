"""WorkloadLimit: no domain ever has more pods of a workload than allowed, and a pod that may go somewhere does.

Random clusters are counted by hand, pod by pod over all pods there are.
"""

import random

import pytest

from berth.testing import VirtualCluster, check_plugin, make_node, make_object, make_pod
from berth_plugins.workload_limit import WorkloadLimit

PLUGINS = {"WorkloadLimit": WorkloadLimit}
HOST, ZONE, MOST = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "example.com/max-per-node"


def limited(config, *limits, also=()):
    return VirtualCluster(plugins=PLUGINS, config=config("WorkloadLimit", *also, args={"limits": list(limits)}))


def node(name, zone="", cpu="64"):
    made = make_node(name).capacity(cpu=cpu, memory="64Gi", pods=99).label(HOST, name)
    return made.label(ZONE, zone) if zone else made


def owned(name, owner, namespace="default"):
    pod = make_pod(name, namespace).owned_by("ReplicaSet", owner, uid=owner)
    pod.metadata["ownerReferences"][0]["controller"] = True
    return pod


def test_a_node_has_so_many_pods_of_what_one_controller_owns(config):
    cluster = limited(config, {"topologyKey": HOST, "max": 2})
    for name in ("n1", "n2"):
        cluster.put(node(name))
    for number in range(5):
        cluster.put(owned(f"a{number}", "a"))
    cluster.put(owned("b0", "b"))
    cluster.put(make_pod("of-nothing"))
    found = cluster.run().nodes_of()
    assert sorted(found[f"a{number}"] for number in range(5)) == ["", "n1", "n1", "n2", "n2"]
    assert found["b0"] and found["of-nothing"]
    (note,) = cluster.events("FailedScheduling")
    assert f"2 node(s) had 2 pod(s) of the workload in their {HOST}, which is the most allowed" in note


def test_an_annotation_gives_the_number_for_one_pod_and_a_change_wakes_it(config):
    cluster = limited(config, {"topologyKey": HOST, "max": 1, "annotation": MOST})
    cluster.put(node("n1"))
    cluster.put(owned("a0", "a"))
    cluster.run()
    second, third = owned("a1", "a").annotation(MOST, "2"), owned("a2", "a").annotation(MOST, "2")
    for pod in (second, third):
        cluster.put(pod)
    assert cluster.run().nodes_of() == {"a0": "n1", "a1": "n1", "a2": ""}
    cluster.put(third.copy().annotation(MOST, "3"))
    assert cluster.advance(15.0).nodes_of()["a2"] == "n1"
    cluster.put(owned("a3", "a").annotation(MOST, "many"))
    assert cluster.run().nodes_of()["a3"] == ""
    assert any(f'annotation {MOST} is "many"' in note for note in cluster.events("FailedScheduling"))


@pytest.mark.parametrize("what", ["deleted", "relabelled", "new node", "node moves"])
def test_what_may_help_wakes_a_pod(config, what):
    cluster = limited(config, {"topologyKey": ZONE, "max": 1, "labelKeys": ["app"]})
    cluster.put(node("n1", "z1"))
    first = make_pod("first").label("app", "web").node("n1")
    cluster.put(first)
    cluster.put(make_pod("second").label("app", "web"))
    other = make_pod("other").label("app", "db").node("n1")
    cluster.put(other)
    assert cluster.advance(20.0).nodes_of()["second"] == ""
    attempts = len(cluster.events("FailedScheduling"))
    cluster.delete("Pod", "default/other")  # which is of another workload
    assert len(cluster.advance(20.0).events("FailedScheduling")) == attempts
    if what == "deleted":
        cluster.delete("Pod", "default/first")
    elif what == "relabelled":
        cluster.put(first.copy().label("app", "db"))
    else:
        cluster.put(node("n2" if what == "new node" else "n1", "z2" if what == "new node" else ""))
    assert cluster.advance(20.0).nodes_of()["second"]


def test_a_pod_counts_from_reserve_until_it_is_gone_or_gives_up(config):
    cluster = limited(config, {"topologyKey": HOST, "max": 1})
    cluster.put(node("n1"))
    cluster.answers_binds = False
    cluster.put(owned("a0", "a"))
    cluster.run()
    cluster.put(owned("a1", "a"))
    assert cluster.run().nodes_of() == {"a0": "", "a1": ""}
    (request,) = cluster.requests
    cluster.answers_binds = True
    cluster.answer(request, "refused")
    assert sorted(cluster.advance(30.0).nodes_of().values()) == ["", "n1"]


def test_preemption_knows_that_a_pod_makes_room(config):
    cluster = limited(config, {"topologyKey": ZONE, "max": 1, "labelKeys": ["app"]}, also=("DefaultPreemption",))
    for name in ("n1", "n2"):
        cluster.put(node(name, "z1"))
    cluster.put(make_pod("old").label("app", "web").node("n1"))
    cluster.put(make_pod("new").label("app", "web").priority(5))
    assert cluster.advance(5.0).nodes_of() == {"new": "n1"}  # on n2 nobody can go


def allowed_by_hand(cluster, pod, limits):
    """The nodes where a pod may go: all pods are looked at for each limit and node."""
    nodes = {name: obj for (kind, name), obj in cluster.objects.items() if kind == "Node"}
    pods = [obj for (kind, _), obj in cluster.objects.items() if kind == "Pod" and obj.spec.node_name]

    def same(other, keys):
        if other.metadata.namespace != pod.metadata.namespace:
            return False
        if keys:
            return all(other.metadata.labels.get(key) == pod.metadata.labels[key] for key in keys)
        mine, theirs = pod.metadata.owner_references, other.metadata.owner_references
        return bool(mine and theirs) and mine[0].uid == theirs[0].uid

    def fits(name):
        for limit in limits:
            key, keys = limit["topologyKey"], limit.get("labelKeys", ())
            domain = nodes[name].metadata.labels.get(key)
            is_limited = all(k in pod.metadata.labels for k in keys) if keys else bool(pod.metadata.owner_references)
            if domain is None or not is_limited:
                continue
            beside = [other for other in pods if nodes[other.spec.node_name].metadata.labels.get(key) == domain]
            most = int(pod.metadata.annotations.get(MOST, limit["max"])) if "annotation" in limit else limit["max"]
            if sum(same(other, keys) for other in beside) >= most:
                return False
        return True

    return {name for name in nodes if fits(name)}


@pytest.mark.parametrize("seed", range(12))
def test_pods_go_where_counting_by_hand_allows_it(config, seed):
    rng = random.Random(seed)
    limits = [
        {"topologyKey": HOST, "max": rng.randint(1, 3), "annotation": MOST},
        {"topologyKey": ZONE, "max": rng.randint(1, 4), "labelKeys": ["app"]},
        {"topologyKey": ZONE, "max": rng.randint(0, 5), "labelKeys": ["app", "tier"]},
    ]
    cluster = limited(config, *limits)
    for number in range(6):
        cluster.put(node(f"n{number}", rng.choice(["", "z1", "z2", "z3"])))
    outcomes = set()
    for number in range(60):
        roll = rng.random()
        running = [key for (kind, key), obj in cluster.objects.items() if kind == "Pod" and obj.spec.node_name]
        if roll < 0.2 and running:
            cluster.delete("Pod", rng.choice(running))
            continue
        if roll < 0.25:
            cluster.put(node(f"n{rng.randrange(6)}", rng.choice(["", "z1", "z2", "z3"])))
        pod = owned(f"p{number}", rng.choice("ab")) if rng.random() < 0.7 else make_pod(f"p{number}")
        for key in ("app", "tier"):
            if rng.random() < 0.7:
                pod.label(key, rng.choice("xy"))
        if rng.random() < 0.3:
            pod.annotation(MOST, str(rng.randint(0, 4)))
        allowed = allowed_by_hand(cluster, pod.build(), limits)
        plugin = next(p.plugin for p in cluster.core.profiles["default-scheduler"].plugins if p.name == "WorkloadLimit")
        check_filter(plugin, cluster.core.cache.table, pod.info(), allowed)
        cluster.put(pod)
        chosen = cluster.run().nodes_of()[f"p{number}"]
        assert chosen in allowed if allowed else chosen == ""
        outcomes.add(bool(chosen))
        if not chosen:
            cluster.delete("Pod", f"default/p{number}")
    assert outcomes == {True, False}


class State(dict):
    """As much of a CycleState as the plugin uses."""

    write, read = dict.__setitem__, dict.__getitem__


def check_filter(plugin, table, pod, allowed):
    """It says what counting by hand says."""
    state = State()
    rows = table.rows()
    if plugin.pre_filter(state, pod) is not None:  # it skips
        assert len(allowed) == len(rows)
        return
    plain = [plugin.filter(state, pod, table.view(row)) for row in rows.tolist()]
    assert {table.names[row] for row, status in zip(rows, plain, strict=True) if status is None} == allowed


def test_it_keeps_its_contract(config):
    limits = [{"topologyKey": ZONE, "max": 3}, {"topologyKey": HOST, "max": 1, "labelKeys": ["app"]}]
    check_plugin(
        WorkloadLimit,
        config=config("WorkloadLimit", args={"limits": limits}),
        nodes=lambda rng, name: node(name, rng.choice(("", "z1", "z2"))),
        pods=lambda rng, name: owned(name, rng.choice("ab")).label("app", rng.choice("cd")),
        histories=6,
    )


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({}, "limits: Required value"),
        ({"limits": [{"max": 1}]}, r"limits\[0\].topologyKey: Required value"),
        ({"limits": [{"topologyKey": HOST}]}, r"limits\[0\].max: Required value"),
        ({"limits": [{"topologyKey": HOST, "max": -1}]}, "must not be negative"),
        ({"limits": [{"topologyKey": HOST, "max": 1, "selector": {"matchExpressions": [
            {"key": "a", "operator": "Near"}]}}]}, "not a valid label selector operator"),
        ({"limits": [{"topologyKey": HOST, "max": 1, "maximum": 2}]}, "maximum"),
    ],
)  # fmt: skip
def test_wrong_args_are_refused(config, args, words):
    with pytest.raises(ValueError, match=words):
        VirtualCluster(plugins=PLUGINS, config=config("WorkloadLimit", args=args))


def test_pods_that_a_selector_leaves_out_neither_count_nor_are_limited(config):
    selector = {"matchLabels": {"limited": "yes"}}
    cluster = limited(config, {"topologyKey": HOST, "max": 1, "selector": selector})
    cluster.put(node("n1"))
    for number in range(3):
        cluster.put(owned(f"a{number}", "a"))
    for number in range(2):
        cluster.put(owned(f"b{number}", "a").label("limited", "yes"))
    assert [name for name, where in cluster.run().nodes_of().items() if not where] == ["b1"]


def test_objects_from_manifests_count_as_well(config):
    cluster = limited(config, {"topologyKey": HOST, "max": 1, "labelKeys": ["app"]})
    cluster.put(node("n1"))
    metadata = {"name": "there", "namespace": "default", "uid": "there", "labels": {"app": "web"}}
    cluster.put(make_object({"kind": "Pod", "metadata": metadata, "spec": {"nodeName": "n1"}}))
    cluster.put(make_pod("new").label("app", "web"))
    assert cluster.run().nodes_of()["new"] == ""


def plugin_of(cluster):
    plugins = cluster.core.profiles["default-scheduler"].plugins
    return next(each.plugin for each in plugins if each.name == "WorkloadLimit")


def test_it_says_who_is_where_and_how_many_of_how_many(config):
    limits = {"topologyKey": HOST, "max": 1}, {"topologyKey": ZONE, "max": 9, "labelKeys": ["app"]}
    cluster = limited(config, *limits)
    for number in range(7):
        cluster.put(node(f"n{number}", "z1"))
        cluster.put(owned(f"a{number}", "a").label("app", "web").node(f"n{number}"))
    owners, labelled = plugin_of(cluster).explain_rejection(owned("a9", "a").label("app", "web").info())
    assert owners.startswith(f"ReplicaSet default/a may have 1 pod(s) in each {HOST}; n0 has 1, n1 has 1, n2 has ")
    assert owners.endswith("n4 has 1 and 2 more are full")
    assert labelled == f"pods with app=web in default may have 9 pod(s) in each {ZONE}, and none has as many"
    assert plugin_of(cluster).explain_rejection(make_pod("of-nothing").info()) == []
    assert [(each.name, dict(each.labels), each.value) for each in plugin_of(cluster).figures()] == [
        ("limited_pods", {"limit": "0", "topology_key": HOST}, 7),
        ("limited_pods", {"limit": "1", "topology_key": ZONE}, 7),
    ]
