"""A scheduler under the roles of deploy/, on an API server that enforces them: with a token of its ServiceAccount.

That nothing is granted which it does not need is held by tests/test_rbac.py; here, that nothing is missing.
"""

import json
import subprocess

import pytest
import yaml

from tests.deploy.chart import ROOT
from tests.e2e.kubectl import Kubectl, eventually
from tests.e2e.processes import BERTH, Process, free_port

RBAC = ROOT / "deploy/kustomize/base/rbac.yaml"
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true, resourceName: berth}
"""


@pytest.fixture
def admin(unscheduled_cluster, tmp_path):
    kubectl = Kubectl(unscheduled_cluster, tmp_path / "cache")
    kubectl("apply", "-f", RBAC)
    yield kubectl
    kubectl("delete", "-f", RBAC)


def with_token(kubeconfig, path, token):
    config = yaml.safe_load(kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.mark.long
def test_the_scheduler_needs_no_more_than_its_roles(admin, unscheduled_cluster, namespace_name, tmp_path):
    token = admin("create", "token", "berth", "--namespace=kube-system").strip()
    kubeconfig = with_token(unscheduled_cluster, tmp_path / "kubeconfig", token)
    berth = Kubectl(kubeconfig, tmp_path / "berth-cache")
    assert berth("auth", "can-i", "create", "pods", "--subresource=binding").strip() == "yes"
    for verb, resource in (("create", "pods"), ("list", "secrets"), ("delete", "nodes")):
        assert berth.run("auth", "can-i", verb, resource).stdout.strip() == "no"
    assert "cannot list resource" in berth.refused("get", "secrets")
    (tmp_path / "config.yaml").write_text(CONFIG)
    arguments = [f"--config={tmp_path / 'config.yaml'}", f"--kubeconfig={kubeconfig}", "--secure-port=0"]
    process = Process(tmp_path / "log", "run", *arguments)
    admin("create", "namespace", namespace_name)
    kubectl = admin.in_namespace(namespace_name)
    try:
        kubectl("create", "-f", "-", text=json.dumps(workload("low", 0, "3", replicas=6)))
        eventually(lambda: len(bound(kubectl)), 6)
        kubectl("create", "-f", "-", text=json.dumps(claiming()))
        eventually(lambda: kubectl.value("pod", "claims", path=".status.phase"), "Running")
        admin("create", "priorityclass", namespace_name, "--value=1000")
        kubectl("create", "-f", "-", text=json.dumps(urgent(namespace_name)))
        eventually(lambda: kubectl.value("pod", "urgent", path=".status.phase"), "Running")
        events = kubectl("get", "events", "-o", "jsonpath={.items[*].reason}").split()
        assert {"Scheduled", "Preempted"} <= set(events)
    finally:
        code = process.end()
        kubectl("delete", "namespace", namespace_name, "--wait=false")
        admin("delete", "priorityclass", namespace_name, "--ignore-not-found")
    said = process.said()
    assert code == 0 and "Traceback" not in said and "orbidden" not in said, said


OBSERVER = ROOT / "deploy/kustomize/components/observer/rbac.yaml"


@pytest.mark.long
def test_an_observer_needs_no_more_than_its_role_and_explains_what_others_decide(
    scheduled_cluster, namespace_name, tmp_path
):
    admin = Kubectl(scheduled_cluster, tmp_path / "cache")
    admin("apply", "-f", OBSERVER)
    token = admin("create", "token", "berth-observer", "--namespace=kube-system").strip()
    kubeconfig = with_token(scheduled_cluster, tmp_path / "kubeconfig", token)
    observer = Kubectl(kubeconfig, tmp_path / "observer-cache")
    for verb, resource in (("create", "pods"), ("patch", "pods"), ("create", "events"), ("update", "leases")):
        assert observer.run("auth", "can-i", verb, resource).stdout.strip() == "no"
    port = free_port()
    arguments = [f"--kubeconfig={kubeconfig}", "--bind-address=127.0.0.1", f"--secure-port={port}"]
    process = Process(tmp_path / "log", "observe", *arguments, f"--cert-dir={tmp_path}", "--decision-log=off")
    admin("create", "namespace", namespace_name)
    kubectl = admin.in_namespace(namespace_name)
    try:
        process.wait_until_it_says("caches are synced")
        kubectl("create", "-f", "-", text=json.dumps(workload("web", 0, "1", replicas=4)))
        kubectl("create", "-f", "-", text=json.dumps(workload("large", 0, "640", replicas=1)))
        eventually(lambda: len(bound(kubectl)), 4)
        (pod, *_) = kubectl.value("pods", "-l", "app=web", path=".items[*].metadata.name").split()
        ask = (
            f"--namespace={namespace_name}",
            f"--kubeconfig={scheduled_cluster}",
            f"--server=https://127.0.0.1:{port}",
            f"--certificate-authority={tmp_path / 'kube-scheduler.crt'}",
        )
        eventually(lambda: "only what the cluster has on record" in explained(pod, *ask), False)
        assert "Insufficient cpu" in explained("deploy/large", *ask)
    finally:
        code = process.end()
        kubectl("delete", "namespace", namespace_name, "--wait=false")
        admin("delete", "-f", OBSERVER)
    said = process.said()
    assert code == 0 and "Traceback" not in said and "orbidden" not in said, said


def explained(*arguments):
    return subprocess.run(
        [BERTH, "explain", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    ).stdout


def bound(kubectl):
    return kubectl.value("pods", path=".items[*].spec.nodeName").split()


def pod_spec(cpu, **spec):
    return {"containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}], **spec}


def workload(name, grace_s, cpu, replicas):
    template = {"metadata": {"labels": {"app": name}}, "spec": pod_spec(cpu, terminationGracePeriodSeconds=grace_s)}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def claiming():
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": spec}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "claims"}, "spec": pod_spec("100m", volumes=volumes)}
    return {"apiVersion": "v1", "kind": "List", "items": [claim, pod]}


def urgent(class_name):
    spec = pod_spec("5", priorityClassName=class_name)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "urgent"}, "spec": spec}
