"""Pods: defaults, admission, validation, and what may change afterwards."""

import pytest

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.patches import MERGE_PATCH
from packages.cluster.tests.objects import PODS, PRIORITY_CLASSES, make_store, pod


def create(obj, store=None):
    return (store or make_store()).create(PODS, "default", obj)


def refusal(obj, store=None):
    with pytest.raises(StoreError) as caught:
        create(obj, store)
    return caught.value


def container(**fields):
    return {"name": "main", "image": "nginx:1.27", **fields}


def test_the_defaults_of_a_pod():
    made = create(pod())
    spec = made["spec"]
    expected = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
        "securityContext": {},
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    assert {key: spec[key] for key in expected} == expected
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    (main,) = spec["containers"]
    assert main["terminationMessagePath"] == "/dev/termination-log"
    assert main["imagePullPolicy"] == "IfNotPresent"


def test_what_is_given_is_kept():
    made = create(pod(restartPolicy="Never", schedulerName="berth", terminationGracePeriodSeconds=0))
    spec = made["spec"]
    assert (spec["restartPolicy"], spec["schedulerName"], spec["terminationGracePeriodSeconds"]) == (
        "Never",
        "berth",
        0,
    )


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.27", "IfNotPresent"),
        ("registry.local:5000/nginx", "Always"),
        ("nginx@sha256:0123", "IfNotPresent"),
    ],
)
def test_images_that_may_change_are_always_pulled(image, policy):
    made = create(pod(containers=[container(image=image)]))
    assert made["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_a_limit_is_a_request_too():
    resources = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}
    made = create(pod(containers=[container(resources=resources)]))
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}


def test_tolerations_of_lost_nodes_are_added():
    added = create(pod())["spec"]["tolerations"]
    assert added == [
        {"key": f"node.kubernetes.io/{word}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for word in ("not-ready", "unreachable")
    ]
    everything = [{"operator": "Exists"}]
    assert create(pod(tolerations=everything))["spec"]["tolerations"] == everything


@pytest.mark.parametrize(
    ("resources", "qos"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "0"}}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Mi"}}, "Burstable"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"example.com/gpu": "1"}}, "BestEffort"),
    ],
)
def test_the_qos_class(resources, qos):
    assert create(pod(containers=[container(resources=resources)]))["status"]["qosClass"] == qos


class TestPriority:
    """Resolution of priority classes."""

    def store(self):
        store = make_store()
        store.create(PRIORITY_CLASSES, "", {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"})
        return store

    def test_a_class_gives_priority_and_preemption_policy(self):
        spec = create(pod(priorityClassName="high"), self.store())["spec"]
        assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")

    def test_the_systems_classes_are_there(self):
        spec = create(pod(priorityClassName="system-node-critical"))["spec"]
        assert spec["priority"] == 2_000_001_000

    def test_the_global_default_is_for_pods_without_a_class(self):
        store = self.store()
        default = {"metadata": {"name": "usual"}, "value": 50, "globalDefault": True}
        store.create(PRIORITY_CLASSES, "", default)
        spec = create(pod(), store)["spec"]
        assert (spec["priority"], spec["priorityClassName"]) == (50, "usual")

    def test_an_unknown_class_is_refused(self):
        error = refusal(pod(priorityClassName="nope"))
        assert (error.status_code, error.reason) == (403, "Forbidden")
        assert error.message == 'pods "web" is forbidden: no PriorityClass with name nope was found'

    def test_a_priority_of_ones_own_is_refused(self):
        error = refusal(pod(priority=7))
        assert error.status_code == 403
        assert error.message.endswith(
            "the integer value of priority (7) must not be provided in pod spec; "
            "priority admission controller computed 0 from the given PriorityClass name"
        )


def test_match_label_keys_become_expressions():
    selector = {"matchLabels": {"app": "web"}}
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
        "matchLabelKeys": ["version", "absent"],
    }
    term = {
        "topologyKey": "zone",
        "labelSelector": selector,
        "matchLabelKeys": ["version"],
        "mismatchLabelKeys": ["tenant"],
    }
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    obj = pod(topologySpreadConstraints=[spread], affinity={"podAntiAffinity": required})
    obj["metadata"]["labels"] = {"app": "web", "version": "v2", "tenant": "a"}
    spec = create(obj)["spec"]
    version = {"key": "version", "operator": "In", "values": ["v2"]}
    assert spec["topologySpreadConstraints"][0]["labelSelector"] == {**selector, "matchExpressions": [version]}
    (merged,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    tenant = {"key": "tenant", "operator": "NotIn", "values": ["a"]}
    assert merged["labelSelector"] == {**selector, "matchExpressions": [version, tenant]}


def test_a_gated_pod_says_that_it_waits():
    (condition,) = create(pod(schedulingGates=[{"name": "example.com/wait"}]))["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "SchedulingGated")
    assert condition["message"] == "Scheduling is blocked due to non-empty scheduling gates"


@pytest.mark.parametrize(
    ("obj", "why"),
    [
        (pod("Web"), 'metadata.name: Invalid value: "Web": a lowercase RFC 1123 subdomain must consist of'),
        ({"metadata": {"name": "web"}}, "spec.containers: Required value"),
        (pod(containers=[{"name": "main"}]), "spec.containers[0].image: Required value"),
        (pod(containers=[{"image": "x"}]), "spec.containers[0].name: Required value"),
        (pod(containers=[container(), container()]), 'spec.containers[1].name: Duplicate value: "main"'),
        (
            pod(restartPolicy="Sometimes"),
            'spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always"',
        ),
        (pod(nodeSelector={"a": "b c"}), 'spec.nodeSelector: Invalid value: "b c": a valid label must be'),
        (
            pod(containers=[container(resources={"limits": {"cpu": "1"}, "requests": {"cpu": "2"}})]),
            'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
        ),
        (
            pod(containers=[container(resources={"requests": {"cpu": "-1"}})]),
            'resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0',
        ),
        (
            pod(containers=[container(ports=[{"containerPort": 70000}])]),
            "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ),
        (
            pod(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]),
            "value must be empty when `operator` is 'Exists'",
        ),
        (pod(tolerations=[{"effect": "Never", "operator": "Exists"}]), 'Unsupported value: "Never"'),
        (
            pod(topologySpreadConstraints=[{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]),
            "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
        ),
        (
            pod(nodeName="n", schedulingGates=[{"name": "g"}]),
            "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
        ),
    ],
)
def test_pods_that_are_wrong(obj, why):
    error = refusal(obj)
    assert (error.status_code, error.reason) == (422, "Invalid")
    assert why in error.message
    assert error.message.startswith(f'Pod "{obj["metadata"]["name"]}" is invalid: ')


def test_labels_are_checked():
    obj = pod()
    obj["metadata"]["labels"] = {"app": "no spaces", "-bad": "x"}
    error = refusal(obj)
    fields = [cause["field"] for cause in error.details["causes"]]
    assert fields == ["metadata.labels", "metadata.labels"]
    assert error.message.startswith('Pod "web" is invalid: [metadata.labels: Invalid value: "no spaces"')


def test_an_impossible_quantity_cannot_be_read():
    error = refusal(pod(containers=[container(resources={"requests": {"memory": "lots"}})]))
    assert (error.status_code, error.reason) == (400, "BadRequest")
    assert error.message.startswith('Pod in version "v1" cannot be handled as a Pod: quantities must match')


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ({"spec": {"nodeSelector": {"a": "b"}}}, "spec: Forbidden: pod updates may not change fields other than"),
        ({"spec": {"schedulingGates": [{"name": "new"}]}}, "only deletion is allowed, but found new scheduling gate"),
        ({"spec": {"tolerations": []}}, "spec.tolerations: Forbidden: existing toleration"),
    ],
)
def test_most_of_a_pod_never_changes(patch, why):
    store = make_store()
    create(pod(tolerations=[{"key": "a", "operator": "Exists"}]), store)
    with pytest.raises(StoreError) as caught:
        store.patch(PODS, "default", "web", patch, MERGE_PATCH)
    assert caught.value.status_code == 422 and why in caught.value.message


def test_image_and_tolerations_may_change():
    store = make_store()
    made = create(pod(), store)
    more = [*made["spec"]["tolerations"], {"key": "a", "operator": "Exists"}]
    new_image = [{**made["spec"]["containers"][0], "image": "nginx:1.28"}]
    patch = {"spec": {"containers": new_image, "tolerations": more, "activeDeadlineSeconds": 9}}
    changed = store.patch(PODS, "default", "web", patch, MERGE_PATCH)
    assert changed["spec"]["containers"][0]["image"] == "nginx:1.28"
    assert changed["metadata"]["generation"] == 2


def test_gates_can_be_removed_and_the_selector_narrowed_meanwhile():
    store = make_store()
    create(pod(schedulingGates=[{"name": "a"}, {"name": "b"}]), store)
    store.patch(PODS, "default", "web", {"spec": {"nodeSelector": {"disk": "ssd"}}}, MERGE_PATCH)
    freed = store.patch(PODS, "default", "web", {"spec": {"schedulingGates": None}}, MERGE_PATCH)
    assert "schedulingGates" not in freed["spec"] and freed["spec"]["nodeSelector"] == {"disk": "ssd"}


def test_status_keeps_the_qos_class():
    store = make_store()
    create(pod(), store)
    store.update(PODS, "default", "web", {"metadata": {"name": "web"}, "status": {"phase": "Running"}}, "status")
    assert store.get(PODS, "default", "web")["status"] == {"phase": "Running", "qosClass": "BestEffort"}


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        (
            {"hostNetwork": True},
            ['-  "HostNetwork": false,', '+  "HostNetwork": true,'],
        ),
        (
            {"terminationGracePeriodSeconds": 5},
            ['- "TerminationGracePeriodSeconds": 30,', '+ "TerminationGracePeriodSeconds": 5,'],
        ),
        (
            {"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}]},
            ['-    "Medium": "",', '+    "Medium": "Memory",'],
        ),
    ],
)
def test_a_refusal_shows_what_would_change(patch, expected):
    # As a kube-apiserver 1.36 shows it: the fields of Go's internal type, three lines of context, no headers.
    store = make_store()
    create(pod(volumes=[{"name": "v", "emptyDir": {}}]), store)
    with pytest.raises(StoreError) as caught:
        store.patch(PODS, "default", "web", {"spec": patch}, MERGE_PATCH)
    first, *lines = caught.value.details["causes"][-1]["message"].splitlines()
    assert first.startswith("Forbidden: pod updates may not change fields other than")
    assert lines[0].startswith("@@ -") and [line for line in lines if line[0] in "+-"] == expected


def test_gates_are_only_taken_away():
    store = make_store()
    create(pod(schedulingGates=[{"name": "a"}], nodeSelector={"disk": "ssd"}), store)
    for patch, why in (
        ({"schedulingGates": [{"name": "a"}, {"name": "b"}]},
         "spec.schedulingGates[1].name: Forbidden: only deletion is allowed, but found new scheduling gate 'b'"),
        ({"nodeSelector": {"disk": "hdd"}},
         ('spec.nodeSelector: Invalid value: {"disk":"hdd"}: only additions to spec.nodeSelector are allowed (no '
         "mutations or deletions)")),
        ({"activeDeadlineSeconds": 0}, "spec.activeDeadlineSeconds"),
    ):  # fmt: skip
        with pytest.raises(StoreError) as caught:
            store.patch(PODS, "default", "web", {"spec": patch}, MERGE_PATCH)
        assert why in caught.value.message


def test_a_deadline_comes_sooner_or_not_at_all():
    store = make_store()
    create(pod(activeDeadlineSeconds=100), store)
    for value, why in (
        (200, "200: must be less than or equal to previous value"),
        (None, "null: must not update from"),
    ):
        with pytest.raises(StoreError, match=f"spec.activeDeadlineSeconds: Invalid value: {why}"):
            store.patch(PODS, "default", "web", {"spec": {"activeDeadlineSeconds": value}}, MERGE_PATCH)
    store.patch(PODS, "default", "web", {"spec": {"activeDeadlineSeconds": 50}}, MERGE_PATCH)
