"""[sig-scheduling] Predicates, priorities, preemption and limit ranges, on hollow "
"nodes and with Berth's scheduler."""

import contextlib
from collections import Counter

import pytest

from packages.cluster.tests.suite.client import both, condition, is_running, pod, refused, spec, workload
from tests.waiting import eventually

MI, GI = 2**20, 2**30


@pytest.fixture
def nodes(cluster):
    """The names of the nodes, whose labels, taints and capacities are put back in the end."""
    before = {node["metadata"]["name"]: node for node in cluster.list("Node")}
    yield sorted(before)
    for name, old in before.items():
        node = cluster.read("Node", name)
        node["metadata"]["labels"], node["spec"] = old["metadata"]["labels"], old["spec"]
        node["metadata"]["resourceVersion"] = "0"
        cluster.update(node)
        node = cluster.read("Node", name)
        node["status"]["capacity"] = old["status"]["capacity"]
        node["status"]["allocatable"] = old["status"]["allocatable"]
        node["metadata"]["resourceVersion"] = "0"
        cluster.update(node, "status")


@pytest.fixture
def priority_classes(cluster):
    """Makes PriorityClasses that end with the spec: their names, by what they are called here."""
    made = []

    def make(**values):
        for name, value in values.items():
            metadata = {"name": f"{cluster.namespace}-{name}"}
            body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": value}
            made.append(cluster.create(body)["metadata"]["name"])
        return {name: f"{cluster.namespace}-{name}" for name in values}

    yield make
    for name in made:
        cluster.delete("PriorityClass", name)


def advertise(cluster, node, **amounts):
    """Say of a node that it has more, as the suite does: of its capacity alone."""
    amounts = {name.replace("__", "/").replace("_", "."): amount for name, amount in amounts.items()}
    cluster.patch("Node", node, {"status": {"capacity": amounts}}, "status", how="strategic")

    def is_allocatable(obj):
        return amounts.items() <= obj["status"]["allocatable"].items()

    cluster.until("Node", node, is_allocatable)


def on(*names, key=None):
    field = "matchExpressions" if key else "matchFields"
    terms = [{field: [{"key": key or "metadata.name", "operator": "In", "values": list(names)}]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def until_refused(cluster, name):
    """The message with which the scheduler found no node for a pod."""
    cluster.until("Pod", name, lambda obj: condition(obj, "PodScheduled") == "False")
    (event, *_) = eventually(
        lambda: [
            each
            for each in cluster.list("Event", fieldSelector=f"involvedObject.name={name}")
            if each["reason"] == "FailedScheduling"
        ]
    )
    return event["message"] if "message" in event else event["note"]


def node_of(cluster, name):
    return cluster.until("Pod", name, is_running)["spec"]["nodeName"]


def free(cluster, resource, of):
    """How much of a resource each node has left."""
    left = {node["metadata"]["name"]: of(node["status"]["allocatable"][resource]) for node in cluster.list("Node")}
    for each in cluster.list("Pod", everywhere=True):
        name = each["spec"].get("nodeName")
        if name in left and each["status"]["phase"] not in ("Succeeded", "Failed"):
            for container in each["spec"]["containers"]:
                left[name] -= of(container.get("resources", {}).get("requests", {}).get(resource, "0"))
    return left


def milli(text):
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000


def whole(text):
    for unit, size in (("Ki", 2**10), ("Mi", MI), ("Gi", GI), ("Ti", 2**40)):
        if text.endswith(unit):
            return int(text[:-2]) * size
    return int(text)


# --- predicates -----------------------------------------------------------------------------------------------------


@spec("SchedulerPredicates validates resource limits of pods that are allowed to run")
def test_more_cpu_than_there_is(cluster, nodes):
    left = free(cluster, "cpu", milli)
    for name, amount in left.items():
        cluster.create(pod(f"filler-{name}", affinity=on(name), resources=both("cpu", f"{amount * 7 // 10}m")))
    cluster.until_running(*(f"filler-{name}" for name in left))
    cluster.create(pod("additional", resources=both("cpu", f"{max(left.values()) // 2}m")))
    assert "Insufficient cpu" in until_refused(cluster, "additional")


@spec("SchedulerPredicates validates local ephemeral storage resource limits of pods that are allowed to run")
def test_more_ephemeral_storage_than_there_is(cluster, nodes):
    left = free(cluster, "ephemeral-storage", whole)
    each = max(left.values()) // 10
    count = sum(amount // each for amount in left.values())
    for number in range(count):
        cluster.create(pod(f"overcommit-{number}", resources=both("ephemeral-storage", str(each))))
    cluster.until_running(*(f"overcommit-{number}" for number in range(count)))
    cluster.create(pod("additional", resources=both("ephemeral-storage", str(each))))
    assert "Insufficient ephemeral-storage" in until_refused(cluster, "additional")


@spec(
    "SchedulerPredicates validates pod overhead is considered along with resource limits "
    "of pods that are allowed to run verify pod overhead is accounted for"
)
def test_overhead_counts(cluster, nodes):
    node = cluster.read("Node", nodes[0])
    node["metadata"]["resourceVersion"] = "0"
    node["status"]["capacity"]["example.com/beardsecond"] = "1000"
    cluster.update(node, "status")
    handler = f"{cluster.namespace}-handler"
    overhead = {"podFixed": {"example.com/beardsecond": "250"}}
    cluster.create(
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": handler},
            "handler": handler,
            "overhead": overhead,
        }
    )
    try:
        cluster.create(pod("filler", resources=both("example.com/beardsecond", "700")))
        assert node_of(cluster, "filler") == nodes[0]
        wanted = {"limits": {"example.com/beardsecond": "200"}}
        made = cluster.create(pod("additional", runtimeClassName=handler, resources=wanted))
        assert made["spec"]["overhead"] == overhead["podFixed"]
        assert "Insufficient example.com/beardsecond" in until_refused(cluster, "additional")
    finally:
        cluster.delete("RuntimeClass", handler)


@spec("SchedulerPredicates validates that NodeSelector is respected if not matching")
def test_a_selector_that_matches_nothing(cluster, nodes):
    cluster.create(pod("restricted", nodeSelector={"label": "nonempty"}))
    assert "node affinity/selector" in until_refused(cluster, "restricted")


@spec("SchedulerPredicates validates that NodeAffinity is respected if not matching")
def test_an_affinity_that_matches_nothing(cluster, nodes):
    terms = [
        {"matchExpressions": [{"key": "foo", "operator": "In", "values": ["bar", "value2"]}]},
        {"matchExpressions": [{"key": "diffkey", "operator": "In", "values": ["wrong", "value2"]}]},
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    cluster.create(pod("restricted", affinity={"nodeAffinity": required}))
    assert "node affinity/selector" in until_refused(cluster, "restricted")


@spec(
    "SchedulerPredicates validates that NodeSelector is respected if matching",
    "SchedulerPredicates validates that required NodeAffinity setting is respected if matching",
)
def test_a_label_that_one_node_has(cluster, nodes):
    cluster.create(pod("without-label"))
    name = node_of(cluster, "without-label")
    key = f"kubernetes.io/e2e-{cluster.namespace}"
    cluster.patch("Node", name, {"metadata": {"labels": {key: "42"}}})
    cluster.create(pod("selecting", nodeSelector={key: "42"}))
    cluster.create(pod("affine", affinity=on("42", key=key)))
    assert node_of(cluster, "selecting") == node_of(cluster, "affine") == name


@spec(
    "SchedulerPredicates validates that taints-tolerations is respected if matching",
    "SchedulerPredicates validates that taints-tolerations is respected if not matching",
)
@pytest.mark.parametrize("tolerates", [True, False])
def test_a_taint_of_the_one_node_with_the_label(cluster, nodes, tolerates):
    name = nodes[0]
    taint = {"key": f"kubernetes.io/e2e-taint-{cluster.namespace}", "value": "testing", "effect": "NoSchedule"}
    cluster.patch("Node", name, {"spec": {"taints": [taint]}, "metadata": {"labels": {"taken": cluster.namespace}}})
    toleration = {key: taint[key] for key in ("key", "value", "effect")}
    fields = {"tolerations": [toleration]} if tolerates else {}
    cluster.create(pod("with-selector", nodeSelector={"taken": cluster.namespace}, **fields))
    if tolerates:
        assert node_of(cluster, "with-selector") == name
        return
    assert "untolerated taint" in until_refused(cluster, "with-selector")
    cluster.patch("Node", name, {"spec": {"taints": None}})
    assert node_of(cluster, "with-selector") == name


@spec(
    "SchedulerPredicates validates that there exists conflict between pods with same "
    "hostPort and protocol but one using 0.0.0.0 hostIP",
)
def test_host_ports(cluster, nodes):
    def with_port(name, ip, protocol="TCP"):
        port = {"hostPort": 54322, "containerPort": 8080, "protocol": protocol, "hostIP": ip}
        return pod(name, ports=[port], nodeSelector={"kubernetes.io/hostname": nodes[0]})

    cluster.create(with_port("pod1", "127.0.0.1"))
    cluster.create(with_port("pod2", "10.0.0.1"))
    cluster.create(with_port("pod3", "10.0.0.1", "UDP"))
    cluster.until_running("pod1", "pod2", "pod3")
    cluster.create(with_port("pod4", "0.0.0.0"))
    assert "free ports" in until_refused(cluster, "pod4")


@spec(
    "SchedulerPredicates PodTopologySpread Filtering validates 4 pods with MaxSkew=1 are "
    "evenly distributed into 2 nodes"
)
def test_four_pods_on_two_nodes(cluster, nodes):
    key = f"kubernetes.io/e2e-pts-filter-{cluster.namespace}"
    for name in nodes[:2]:
        cluster.patch("Node", name, {"metadata": {"labels": {key: name}}})
        advertise(cluster, name, example_com__fakePTSRes="10")
    spread = {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"spread": "x"}},
    }
    of = {"affinity": on(*nodes[:2], key=key), "topologySpreadConstraints": [spread]}
    cluster.create(workload("ReplicaSet", "rs", 4, labels={"spread": "x"}, of=of))
    pods = cluster.until_count("Pod", 4, is_running)
    assert Counter(each["spec"]["nodeName"] for each in pods) == {nodes[0]: 2, nodes[1]: 2}


@spec("SchedulerPredicates validates Pods with non-empty schedulingGates are blocked on scheduling")
def test_gates(cluster, nodes):
    gates = [{"name": "foo"}, {"name": "bar"}]
    cluster.create(workload("ReplicaSet", "rs", 3, of={"schedulingGates": gates}))

    def is_gated(each):
        return [one["reason"] for one in each["status"].get("conditions", [])] == ["SchedulingGated"]

    pods = cluster.until_count("Pod", 3, is_gated)
    for left in (gates[1:], []):
        for each in pods:
            cluster.patch("Pod", each["metadata"]["name"], {"spec": {"schedulingGates": left}})
        if left:
            cluster.until_count("Pod", 3, is_gated)
    cluster.until_count("Pod", 3, is_running)


# --- preemption -----------------------------------------------------------------------------------------------------


@spec(
    "SchedulerPreemption validates basic preemption works",
    "SchedulerPreemption validates lower priority pod preemption by critical pod",
)
@pytest.mark.parametrize("critical", [False, True])
def test_the_least_important_pod_makes_way(cluster, nodes, priority_classes, critical):
    classes = priority_classes(low=1, medium=100, high=1000)
    two = both("scheduling.k8s.io/foo", "2")
    for number, name in enumerate(nodes):
        advertise(cluster, name, scheduling_k8s_io__foo="3")
        of = classes["medium" if number else "low"]
        cluster.create(pod(f"pod{number}", priorityClassName=of, resources=two, affinity=on(name)))
    names = [f"pod{number}" for number in range(len(nodes))]
    cluster.until_running(*names)
    where = cluster.in_namespace("kube-system") if critical else cluster
    preemptor = f"preemptor-{cluster.namespace}"
    of = "system-cluster-critical" if critical else classes["high"]
    where.create(pod(preemptor, priorityClassName=of, resources=two))
    try:
        assert node_of(where, preemptor) == nodes[0]
        cluster.until_gone("Pod", names[0])
        assert all("deletionTimestamp" not in cluster.read("Pod", name)["metadata"] for name in names[1:])
    finally:
        where.delete("Pod", preemptor, gracePeriodSeconds=0)


@spec("SchedulerPreemption validates pod disruption condition is added to the preempted pod")
def test_a_victim_with_a_finalizer_says_why_it_ended(cluster, nodes, priority_classes):
    classes = priority_classes(low=1, high=1000)
    advertise(cluster, nodes[0], example_com__fakecpu="1")
    one = both("example.com/fakecpu", "1")
    finalizers = ["example.com/test-finalizer"]
    cluster.create(pod("victim", priorityClassName=classes["low"], resources=one, finalizers=finalizers))
    assert node_of(cluster, "victim") == nodes[0]
    cluster.create(pod("preemptor", priorityClassName=classes["high"], resources=one))
    victim = cluster.until("Pod", "victim", lambda obj: condition(obj, "DisruptionTarget") == "True")
    cluster.until("Pod", "victim", lambda obj: obj["metadata"].get("deletionTimestamp"))
    (said,) = [each for each in victim["status"]["conditions"] if each["type"] == "DisruptionTarget"]
    assert said["reason"] == "PreemptionByScheduler"
    assert node_of(cluster, "preemptor") == nodes[0]
    assert cluster.exists("Pod", "victim")
    cluster.patch("Pod", "victim", {"metadata": {"finalizers": None}})
    cluster.until_gone("Pod", "victim")


@spec("SchedulerPreemption PodTopologySpread Preemption validates proper pods are preempted")
def test_victims_that_make_the_spread_even(cluster, nodes, priority_classes):
    classes = priority_classes(low=1, medium=100, high=1000)
    key = f"kubernetes.io/e2e-pts-preemption-{cluster.namespace}"
    for name in nodes[:2]:
        cluster.patch("Node", name, {"metadata": {"labels": {key: name}}})
        advertise(cluster, name, example_com__fakePTSRes="10")
    fields = {"labels": {"spread": ""}, "affinity": on(*nodes[:2], key=key)}

    def run(name, priority, amount, **more):
        cluster.create(
            pod(
                name,
                priorityClassName=classes[priority],
                resources=both("example.com/fakePTSRes", amount),
                **fields,
                **more,
            )
        )
        cluster.until_running(name)

    run("high", "high", "9")
    for number in range(3):
        run(f"low-{number}", "low", "3")
    spread = {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchExpressions": [{"key": "spread", "operator": "Exists"}]},
    }
    run("medium", "medium", "3", topologySpreadConstraints=[spread])
    names = [each["metadata"]["name"].partition("-")[0] for each in cluster.until_count("Pod", 3)]
    assert sorted(names) == ["high", "low", "medium"]


@spec("SchedulerPreemption PreemptionExecutionPath runs ReplicaSets to verify preemption running path")
def test_replica_sets_that_are_preempted(cluster, nodes, priority_classes):
    classes = priority_classes(p1=1, p2=2, p3=3, p4=4)
    advertise(cluster, nodes[0], example_com__fakecpu="1k")
    host = {"kubernetes.io/hostname": nodes[0]}
    since = cluster.listing("Pod")["metadata"]["resourceVersion"]

    def fields(priority, amount):
        of = classes[f"p{priority}"]
        return {"priorityClassName": of, "nodeSelector": host, "resources": both("example.com/fakecpu", amount)}

    for number, amount in ((1, "200"), (2, "300"), (3, "450")):
        cluster.create(workload("ReplicaSet", f"rs-pod{number}", 1, of=fields(number, amount)))
        cluster.until("ReplicaSet", f"rs-pod{number}", lambda obj: obj["status"].get("availableReplicas") == 1)
    cluster.create(pod("pod4", **fields(4, "500")))
    cluster.until_running("pod4")

    def added(seen):
        return Counter(
            obj["metadata"]["name"].rpartition("-")[0]
            for event, obj in seen
            if event == "ADDED"
            if obj["metadata"]["name"] != "pod4"
        )

    seen = cluster.watch("Pod", lambda seen: added(seen).total() == 5, resourceVersion=since)
    assert added(seen) == {"rs-pod1": 2, "rs-pod2": 2, "rs-pod3": 1}


@spec(
    "SchedulerPreemption PriorityClass endpoints verify PriorityClass endpoints can be "
    "operated with different HTTP methods"
)
def test_priority_classes_are_changed(cluster, priority_classes):
    names = priority_classes(p1=1, p2=2)
    assert refused(cluster.patch, "PriorityClass", names["p1"], {"value": 10}).code == 422
    second = cluster.read("PriorityClass", names["p2"])
    assert refused(cluster.update, second | {"value": 20}).code == 422
    cluster.patch("PriorityClass", names["p1"], {"description": "updated description"}, how="strategic")
    cluster.update(second | {"description": "updated description"})
    found = {each["metadata"]["name"]: each for each in cluster.list("PriorityClass")}
    for number, name in enumerate(names.values(), 1):
        assert (found[name]["value"], found[name]["description"]) == (number, "updated description")


# --- priorities -----------------------------------------------------------------------------------------------------


@spec("SchedulerPriorities Pod should be scheduled to node that don't match the PodAntiAffinity terms")
def test_away_from_the_pod_with_the_label(cluster, nodes):
    cluster.create(pod("labelled", labels={"service": "S1"}))
    first = node_of(cluster, "labelled")
    term = {
        "podAffinityTerm": {
            "labelSelector": {"matchExpressions": [{"key": "service", "operator": "In", "values": ["S1", "value2"]}]},
            "topologyKey": "kubernetes.io/hostname",
        },
        "weight": 10,
    }
    away = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    cluster.create(pod("away", affinity=away))
    assert node_of(cluster, "away") != first


@spec("SchedulerPriorities Pod should be preferably scheduled to nodes pod can tolerate")
def test_to_where_all_taints_are_tolerated(cluster, nodes):
    def taints(name):
        return [
            {"key": f"kubernetes.io/e2e-{name}-{number}", "value": "testing", "effect": "PreferNoSchedule"}
            for number in range(5)
        ]

    for name in nodes:
        cluster.patch("Node", name, {"spec": {"taints": taints(name)}})
    tolerations = taints(nodes[1])
    for attempt in range(3):
        cluster.create(pod(f"tolerant-{attempt}", tolerations=tolerations))
        assert node_of(cluster, f"tolerant-{attempt}") == nodes[1]


@spec(
    "SchedulerPriorities PodTopologySpread Scoring validates pod should be preferably "
    "scheduled to node which makes the matching pods more evenly distributed"
)
def test_to_the_node_with_fewer_of_them(cluster, nodes):
    key = f"kubernetes.io/e2e-pts-score-{cluster.namespace}"
    for name in nodes[:2]:
        cluster.patch("Node", name, {"metadata": {"labels": {key: name}}})
    cluster.create(workload("ReplicaSet", "rs", 4, labels={"spread": "foo"}, of={"affinity": on(nodes[0])}))
    cluster.until_count("Pod", 4, is_running)
    spread = {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchExpressions": [{"key": "spread", "operator": "Exists"}]},
    }
    fields = {"affinity": on(*nodes[:2], key=key), "topologySpreadConstraints": [spread]}
    cluster.create(pod("test-pod", labels={"spread": "bar"}, **fields))
    assert node_of(cluster, "test-pod") == nodes[1]


@spec(
    "Multi-AZ Clusters should spread the pods of a service across zones",
    "Multi-AZ Clusters should spread the pods of a replication controller across zones",
)
@pytest.mark.parametrize("of_service", [True, False])
def test_across_zones(cluster, nodes, of_service):
    zones = {
        node["metadata"]["name"]: node["metadata"]["labels"]["topology.kubernetes.io/zone"]
        for node in cluster.list("Node")
    }
    if of_service:
        ports = {"selector": {"app": "spread"}, "ports": [{"port": 80}]}
        cluster.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": ports})
        for number in range(7):
            cluster.create(pod(f"pod-{number}", labels={"app": "spread"}))
    else:
        cluster.create(workload("ReplicationController", "rc", 7))
    pods = cluster.until_count("Pod", 7, is_running)
    counts = Counter(zones[each["spec"]["nodeName"]] for each in pods)
    assert len(counts) == len(set(zones.values())) and max(counts.values()) - min(counts.values()) <= 1


# --- limit ranges ---------------------------------------------------------------------------------------------------


def amounts(cpu, memory, storage):
    named = {"cpu": cpu, "memory": memory, "ephemeral-storage": storage}
    return {name: amount for name, amount in named.items() if amount}


def limit_range(name, labels=None):
    item = {
        "type": "Container",
        "min": amounts("50m", "100Mi", "100Gi"),
        "max": amounts("500m", "500Mi", "500Gi"),
        "default": amounts("500m", "500Mi", "500Gi"),
        "defaultRequest": amounts("100m", "200Mi", "200Gi"),
        "maxLimitRequestRatio": {},
    }
    metadata = {"name": name, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": [item]}}


@spec("LimitRange should create a LimitRange with defaults and ensure pod has those defaults applied.")
def test_defaults_of_a_limit_range(cluster):
    def resources_of(name, requests=None, limits=None):
        cluster.create(pod(name, resources={"requests": requests or {}, "limits": limits or {}}))
        return cluster.read("Pod", name)["spec"]["containers"][0]["resources"]

    since = cluster.listing("LimitRange")["metadata"]["resourceVersion"]
    made = cluster.create(limit_range("limits", {"time": "1"}))
    ((event, _),) = cluster.watch("LimitRange", len, resourceVersion=since, labelSelector="time=1")
    assert event == "ADDED"
    assert made["spec"]["limits"][0]["defaultRequest"] == amounts("100m", "200Mi", "200Gi")
    plain = {"requests": amounts("100m", "200Mi", "200Gi"), "limits": amounts("500m", "500Mi", "500Gi")}
    assert resources_of("pod-no-resources") == plain
    assert resources_of("pod-partial-resources", amounts("", "150Mi", "150Gi"), amounts("300m", "", "")) == {
        "requests": amounts("300m", "150Mi", "150Gi"),
        "limits": amounts("300m", "500Mi", "500Gi"),
    }
    small, large = amounts("10m", "50Mi", "50Gi"), amounts("600m", "600Mi", "600Gi")
    assert refused(resources_of, "pfpod", small).code == 403
    assert refused(resources_of, "pfpod", large).code == 422
    made["spec"]["limits"][0]["min"] = amounts("9m", "49Mi", "49Gi")
    cluster.update(made)
    resources_of("pfpod", small)
    assert refused(resources_of, "pfpod2", large).code == 422
    cluster.delete("LimitRange", "limits", gracePeriodSeconds=30)
    cluster.until_count("LimitRange", 0)
    assert resources_of("pfpod2", large) == {"requests": large}


@spec("LimitRange should list, patch and delete a LimitRange by collection")
def test_limit_ranges_as_a_collection(cluster):
    labels = {"e2e-test": cluster.namespace, cluster.namespace: "created"}
    cluster.create(limit_range("limits", labels))
    other = f"{cluster.namespace}-too"
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}})
    with contextlib.closing(Ending(cluster, other)):
        cluster.in_namespace(other).create(limit_range("limits", labels))
        everywhere = {"everywhere": True, "labelSelector": f"e2e-test={cluster.namespace}"}
        assert len(cluster.list("LimitRange", **everywhere)) == 2
        item = limit_range("limits")["spec"]["limits"][0] | {"min": amounts("9m", "49Mi", "49Gi")}
        patch = {"metadata": {"labels": {cluster.namespace: "patched"}}, "spec": {"limits": [item]}}
        patched = cluster.patch("LimitRange", "limits", patch, how="strategic")
        assert patched["spec"]["limits"][0]["min"] == amounts("9m", "49Mi", "49Gi")
        cluster.delete_all("LimitRange", labelSelector=f"{cluster.namespace}=patched")
        cluster.until_count("LimitRange", 0)
        assert len(cluster.list("LimitRange", **everywhere)) == 1


class Ending:
    """A namespace that is deleted in the end."""

    def __init__(self, cluster, name):
        self._cluster, self._name = cluster, name

    def close(self):
        self._cluster.delete("Namespace", self._name)
        self._cluster.until_gone("Namespace", self._name)
