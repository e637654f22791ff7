"""A working day with kubectl on `berth up`: what people type, and what they get to see.

The tests share one cluster and each has a namespace of its own.
"""

import json
import re
import subprocess

import pytest

from berth.api.pod import Pod
from berth_workbench.snapshot.documents import read_documents
from berth_workbench.snapshot.snapshot import read_cluster
from tests.e2e.kubectl import Kubectl, eventually


@pytest.fixture(scope="module")
def admin(scheduled_cluster, tmp_path_factory):
    """kubectl on a cluster of three nodes."""
    return Kubectl(scheduled_cluster, tmp_path_factory.mktemp("kubectl") / "cache")


@pytest.fixture
def kubectl(admin, namespace_name):
    """kubectl in a namespace of its own."""
    admin("create", "namespace", namespace_name)
    yield admin.in_namespace(namespace_name)
    admin("delete", "namespace", namespace_name, "--wait=false")


def manifest(name="web", image="nginx:1.27", replicas=2):
    return json.dumps(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {
                        "containers": [{"name": "main", "image": image, "resources": {"requests": {"cpu": "100m"}}}]
                    },
                },
            },
        }
    )


def test_the_cluster_shows_itself(admin):
    assert "v1.36.0" in admin("version")
    resources = admin("api-resources", "-o", "name").split()
    assert {"pods", "nodes", "deployments.apps", "podgroups.scheduling.k8s.io", "events.events.k8s.io"} <= set(
        resources
    )
    nodes = admin.rows("nodes", "-o", "wide")
    assert [node["STATUS"] for node in nodes] == ["Ready"] * 3
    assert {"NAME", "ROLES", "AGE", "VERSION", "INTERNAL-IP", "OS-IMAGE"} <= set(nodes[0])
    assert {row["NAME"] for row in admin.rows("namespaces")} >= {"default", "kube-system"}
    assert admin("auth", "can-i", "create", "pods").strip() == "yes"
    explained = admin("explain", "pod.spec.topologySpreadConstraints.maxSkew")
    assert "MaxSkew describes the degree to which pods may be unevenly distributed" in " ".join(explained.split())


def test_a_deployment_is_created_rolled_out_scaled_and_deleted(kubectl):
    kubectl("create", "deployment", "web", "--image=nginx:1.27", "--replicas=2")
    assert "successfully rolled out" in kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    (row,) = kubectl.rows("deployment", "web")
    assert (row["READY"], row["UP-TO-DATE"], row["AVAILABLE"]) == ("2/2", "2", "2")
    pods = kubectl.rows("pods", "-o", "wide")
    assert [pod["STATUS"] for pod in pods] == ["Running"] * 2
    assert all(pod["NODE"] not in ("<none>", "") for pod in pods)

    kubectl("scale", "deployment/web", "--replicas=4")
    kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    assert len(kubectl.rows("pods")) == 4
    kubectl("set", "image", "deployment/web", "nginx=nginx:1.28")
    kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    images = kubectl.value("pods", path=".items[*].spec.containers[0].image")
    assert set(images.split()) <= {"nginx:1.27", "nginx:1.28"} and "nginx:1.28" in images
    assert len(kubectl.rows("replicasets")) == 2
    assert kubectl("rollout", "history", "deployment/web").count("\n") >= 4

    kubectl("delete", "deployment", "web")
    eventually(lambda: kubectl("get", "pods,replicasets", "-o", "name"), "")


def test_apply_changes_what_changed(kubectl):
    assert "created" in kubectl("apply", "-f", "-", text=manifest())
    assert "unchanged" in kubectl("apply", "-f", "-", text=manifest())
    assert "configured" in kubectl("apply", "-f", "-", text=manifest(replicas=3))
    assert kubectl.value("deployment", "web", path=".spec.replicas") == "3"
    differs = kubectl.run("diff", "-f", "-", text=manifest(replicas=3, image="nginx:1.28"))
    assert differs.returncode == 1 and "nginx:1.28" in differs.stdout
    assert "serverside-applied" in kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", text=manifest())
    assert "replaced" in kubectl("replace", "-f", "-", text=manifest(replicas=1))


def test_the_server_checks_the_fields(kubectl):
    typo = json.loads(manifest())
    typo["spec"]["template"]["spec"]["containers"][0]["imagee"] = "x"
    said = kubectl.refused("apply", "-f", "-", text=json.dumps(typo))
    assert 'unknown field "spec.template.spec.containers[0].imagee"' in said
    impossible = manifest().replace("100m", "100 millis")
    said = kubectl.refused("create", "-f", "-", text=impossible)
    assert "cannot be handled as a Deployment: quantities must match" in said
    said = kubectl.refused("create", "deployment", "Web", "--image=nginx")
    assert "a lowercase RFC 1123 subdomain must consist of" in said


def test_load_is_shown_and_scaled_by(kubectl):
    kubectl("create", "-f", "-", text=manifest(replicas=1))
    kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    kubectl("annotate", "pods", "--selector=app=web", "berth.dev/cpu-usage=250m", "berth.dev/memory-usage=64Mi")
    (top,) = kubectl("top", "pods", "--no-headers").splitlines()
    assert top.split()[1:] == ["250m", "64Mi"]
    assert len(kubectl("top", "nodes", "--no-headers").splitlines()) == 3
    kubectl("autoscale", "deployment", "web", "--cpu-percent=50", "--max=4")
    (row,) = kubectl.rows("hpa")
    assert (row["REFERENCE"], row["MINPODS"], row["MAXPODS"]) == ("Deployment/web", "1", "4")
    assert (
        kubectl.value("horizontalpodautoscalers.v1.autoscaling", "web", path=".spec.targetCPUUtilizationPercentage")
        == "50"
    )
    assert (
        kubectl.value(
            "horizontalpodautoscalers.v2.autoscaling", "web", path=".spec.metrics[0].resource.target.averageUtilization"
        )
        == "50"
    )


def test_a_pod_is_run_described_and_deleted(kubectl):
    kubectl("run", "one", "--image=nginx:1.27", "--labels=team=a", "--annotations=note=hello")
    kubectl("wait", "--for=condition=Ready", "pod/one", "--timeout=60s")
    described = kubectl("describe", "pod", "one")
    for line in (r"Status:\s+Running", r"Labels:\s+team=a", r"QoS Class:\s+BestEffort", r"PodScheduled\s+True"):
        assert re.search(line, described), described
    assert kubectl.value("pod", "one", path=".spec.schedulerName") == "default-scheduler"
    kubectl("delete", "pod", "one")
    assert "NotFound" in kubectl.refused("get", "pod", "one")


def test_labels_annotations_and_patches(kubectl):
    kubectl("create", "configmap", "settings", "--from-literal=color=red")
    kubectl("label", "configmap", "settings", "team=a")
    kubectl("annotate", "configmap", "settings", "note=hello")
    assert kubectl("get", "configmaps", "-l", "team=a", "-o", "name").strip() == "configmap/settings"
    kubectl("label", "configmap", "settings", "team-")
    assert kubectl("get", "configmaps", "-l", "team=a", "-o", "name") == ""
    kubectl("patch", "configmap", "settings", "--type=merge", "-p", '{"data":{"color":"blue"}}')
    kubectl("patch", "configmap", "settings", "--type=json", "-p", '[{"op":"add","path":"/data/size","value":"xl"}]')
    assert json.loads(kubectl.value("configmap", "settings", path=".data")) == {"color": "blue", "size": "xl"}


def test_nodes_are_tainted_cordoned_and_drained(admin, kubectl):
    node = admin.rows("nodes")[-1]["NAME"]
    admin("taint", "node", node, "example.com/broken=disk:NoSchedule")
    assert "example.com/broken=disk:NoSchedule" in admin("describe", "node", node)
    admin("cordon", node)
    assert admin.value("node", node, path=".spec.unschedulable") == "true"
    assert {row["NAME"]: row["STATUS"] for row in admin.rows("nodes")}[node] == "Ready,SchedulingDisabled"

    binding = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stay"}}
    tolerations = [{"operator": "Exists"}]
    containers = [{"name": "main", "image": "nginx:1.27"}]
    binding["spec"] = {"nodeName": node, "tolerations": tolerations, "containers": containers}
    binding["spec"]["terminationGracePeriodSeconds"] = 0
    kubectl("create", "-f", "-", text=json.dumps(binding))
    kubectl("wait", "--for=condition=Ready", "pod/stay", "--timeout=60s")
    assert "evicted" in admin("drain", node, "--force", "--ignore-daemonsets")
    eventually(lambda: kubectl("get", "pods", "-o", "name"), "")

    admin("uncordon", node)
    admin("taint", "node", node, "example.com/broken-")
    assert {row["NAME"]: row["STATUS"] for row in admin.rows("nodes")}[node] == "Ready"


def test_a_pod_is_resized_and_the_room_is_used(admin, kubectl):
    """The documentation's Resize CPU and Memory: patch with --subresource resize, read the container's status."""

    def sized(name, cpu):
        container = {"name": "main", "image": "nginx:1.27", "resources": {"requests": {"cpu": cpu}}}
        spec = {"containers": [container], "nodeSelector": {"kubernetes.io/hostname": "node-2"}}
        return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})

    kubectl("create", "-f", "-", text=sized("wide", "5"))
    kubectl("wait", "--for=condition=Ready", "pod/wide", "--timeout=60s")
    kubectl("create", "-f", "-", text=sized("next", "4"))
    kubectl("wait", "--for=condition=PodScheduled=False", "pod/next", "--timeout=60s")
    patch = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}}
    kubectl("patch", "pod", "wide", "--subresource=resize", "-p", json.dumps(patch))
    kubectl("wait", "--for=condition=Ready", "pod/next", "--timeout=60s")
    held = "{.status.containerStatuses[0].resources.requests.cpu}"
    assert kubectl("get", "pod", "wide", "-o", f"jsonpath={held}") == "2"


def test_what_needs_containers_is_refused_in_words(kubectl):
    kubectl("run", "web", "--image=nginx:1.27")
    kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=60s")
    refused = kubectl.run("exec", "web", "--", "ls")
    assert refused.returncode == 1
    assert "hollow nodes run no containers" in refused.stderr


def test_the_log_of_a_pod_says_what_it_is(kubectl):
    """[sig-cli] Kubectl logs, but that there is no output: no container has run."""
    kubectl("run", "web", "--image=nginx:1.27")
    kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=60s")
    for more in ((), ("-f",), ("--tail=1",)):
        [line] = kubectl("logs", "web", *more).splitlines()
        assert "no container has run" in line and "nginx:1.27" in line


def test_a_job_runs_to_its_end(kubectl):
    kubectl("create", "job", "sum", "--image=busybox:1.36")
    kubectl("wait", "--for=condition=Complete", "job/sum", "--timeout=60s")
    (row,) = kubectl.rows("jobs")
    assert (row["STATUS"], row["COMPLETIONS"]) == ("Complete", "1/1")


def test_watching_prints_each_change(kubectl):
    watching = subprocess.Popen(
        kubectl.command("get", "configmaps", "--watch", "--output-watch-events", "--field-selector=metadata.name=seen"),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        kubectl("create", "configmap", "seen", "--from-literal=a=1")
        # The heading comes with the first row: from here on the watch is open.
        heading, first = watching.stdout.readline(), watching.stdout.readline()
        kubectl("patch", "configmap", "seen", "-p", '{"data":{"b":"2"}}')
        second = watching.stdout.readline()
        kubectl("delete", "configmap", "seen")
        third = watching.stdout.readline()
    finally:
        watching.terminate()
        watching.communicate()
    assert heading.split() == ["EVENT", "NAME", "DATA", "AGE"]
    assert [line.split()[:3] for line in (first, second, third)] == [
        ["ADDED", "seen", "1"],
        ["MODIFIED", "seen", "2"],
        ["DELETED", "seen", "2"],
    ]


def test_events_are_read_in_three_ways(kubectl):
    kubectl("run", "one", "--image=nginx:1.27")
    uid = kubectl.value("pod", "one", path=".metadata.uid")
    namespace = kubectl.options[0].partition("=")[2]
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "one.1"},
        "eventTime": "2025-03-01T12:00:00.000000Z",
        "reportingController": "test",
        "reportingInstance": "test-1",
        "action": "Looking",
        "type": "Warning",
        "reason": "Noticed",
        "note": "something happened",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "name": "one", "namespace": namespace, "uid": uid},
    }
    kubectl("create", "-f", "-", text=json.dumps(event))
    row = next(row for row in kubectl.rows("events") if row["REASON"] == "Noticed")
    assert (row["TYPE"], row["OBJECT"], row["MESSAGE"]) == ("Warning", "pod/one", "something happened")
    assert "something happened" in kubectl("describe", "pod", "one")
    assert "something happened" in kubectl("events", "--for=pod/one")


def test_the_scheduler_says_what_it_did(kubectl):
    kubectl("run", "fits", "--image=nginx:1.27")
    kubectl("wait", "--for=condition=PodScheduled", "pod/fits", "--timeout=60s")
    eventually(lambda: "Successfully assigned" in kubectl("events", "--for=pod/fits"), True)
    big = {"spec": {"containers": [{"name": "big", "image": "x:1", "resources": {"requests": {"cpu": "1000"}}}]}}
    kubectl("run", "big", "--image=x:1", f"--overrides={json.dumps(big)}")
    eventually(lambda: "0/3 nodes are available: 3 Insufficient cpu." in kubectl("describe", "pod", "big"), True)
    assert kubectl.rows("pods", "big")[0]["STATUS"] == "Pending"


def test_services_budgets_and_priorities(admin, kubectl):
    kubectl("create", "deployment", "web", "--image=nginx:1.27")
    kubectl("expose", "deployment", "web", "--port=80")
    assert kubectl.rows("services", "web")[0]["TYPE"] == "ClusterIP"
    kubectl("create", "poddisruptionbudget", "web", "--selector=app=web", "--min-available=1")
    assert kubectl.rows("pdb", "web")[0]["MIN AVAILABLE"] == "1"
    admin("create", "priorityclass", "urgent", "--value=1000", "--description=first")
    kubectl("run", "first", "--image=nginx:1.27", '--overrides={"spec":{"priorityClassName":"urgent"}}')
    assert kubectl.value("pod", "first", path=".spec.priority") == "1000"
    said = kubectl.refused("run", "odd", "--image=nginx", '--overrides={"spec":{"priorityClassName":"nope"}}')
    assert "no PriorityClass with name nope was found" in said


def test_a_namespace_takes_its_contents_along(admin):
    admin("create", "namespace", "brief")
    brief = admin.in_namespace("brief")
    brief("create", "deployment", "web", "--image=nginx:1.27")
    admin("delete", "namespace", "brief", "--timeout=60s")
    assert "NotFound" in admin.refused("get", "namespace", "brief")
    assert brief("get", "deployments,pods", "-o", "name") == ""


def test_what_kubectl_prints_is_a_cluster(kubectl, tmp_path):
    kubectl("apply", "-f", "-", text=manifest(replicas=2))
    kubectl("rollout", "status", "deployment/web")
    eventually(lambda: kubectl("get", "pods", "-o", "jsonpath={.items[*].status.phase}"), "Running Running")
    kinds = "nodes,pods,deployments,replicasets"
    for form in ("json", "yaml"):
        (tmp_path / f"list.{form}").write_text(kubectl("get", kinds, "-o", form))
    (tmp_path / "single.yaml").write_text(kubectl("get", "deployment", "web", "-o", "yaml"))
    as_json, as_yaml = (read_documents([tmp_path / f"list.{form}"]) for form in ("json", "yaml"))
    assert [each.manifest for each in as_json] == [each.manifest for each in as_yaml]
    assert [each.kind for each in as_json] == ["Node"] * 3 + ["Pod"] * 2 + ["Deployment", "ReplicaSet"]
    (single,) = read_documents([tmp_path / "single.yaml"])
    assert (single.kind, single.name, single.where) == ("Deployment", "web", str(tmp_path / "single.yaml"))
    pods = [each for each in read_cluster([tmp_path / "list.yaml"]).structs() if isinstance(each, Pod)]
    assert all(pod.spec.node_name for pod in pods)
