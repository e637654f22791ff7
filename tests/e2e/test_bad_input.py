"""`berth run` as a process, given what is wrong: it says so without a traceback, and goes on where it can."""

import json
import signal
import ssl
import urllib.request

import pytest
import yaml

from berth.api.resources import RESOURCES
from tests.e2e.processes import CONFIG, Api, Process, free_port
from tests.waiting import eventually

pytestmark = pytest.mark.long

POD = RESOURCES["Pod"]


@pytest.fixture
def cluster(tmp_path):
    up = Process(tmp_path / "up.log", "up", "--no-scheduler", "--nodes", 2, "--dir", tmp_path / "cluster")
    up.wait_until_it_says("Ctrl-C")
    yield Api(tmp_path / "cluster" / "kubeconfig")
    up.kill()


@pytest.fixture
def run(tmp_path):
    started = []

    def start(*arguments, leader_elect="false", kubeconfig=None):
        config = tmp_path / "config.yaml"
        config.write_text(CONFIG % leader_elect)
        kubeconfig = kubeconfig or tmp_path / "cluster" / "kubeconfig"
        one = Process(
            tmp_path / f"run-{len(started)}.log", "run", "--config", config, "--kubeconfig", kubeconfig, *arguments
        )
        started.append(one)
        return one

    yield start
    for one in started:
        one.kill()


def pod(name, **spec):
    container = {"name": "c", "image": "nginx"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def is_bound(cluster, name):
    return any(one["metadata"]["name"] == name and one["spec"].get("nodeName") for one in cluster.list(POD))


def get(port, path, kubeconfig=None):
    """What is served, as the administrator of the cluster, or as a probe without credentials."""
    token = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]["token"] if kubeconfig else ""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(f"https://127.0.0.1:{port}{path}", headers=headers)
    with urllib.request.urlopen(request, timeout=60, context=context) as answer:
        return answer.read().decode()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_leads_schedules_serves_and_ends_cleanly(cluster, run, tmp_path, number):
    port = free_port()
    scheduler = run("--secure-port", port, leader_elect="true")
    scheduler.wait_until_it_says("became leader")
    cluster.create(POD, pod("web"))
    eventually(lambda: is_bound(cluster, "web"))
    assert get(port, "/readyz") == "ok"
    shown = json.loads(get(port, "/debug/decisions/default/web", tmp_path / "cluster" / "kubeconfig"))
    assert shown["decision"]["outcome"] == "scheduled"
    assert scheduler.end(number) == 0
    (lease,) = [one for one in cluster.list(RESOURCES["Lease"]) if one["metadata"]["name"] == "kube-scheduler"]
    assert not lease["spec"].get("holderIdentity")
    assert "Traceback" not in scheduler.said()


def test_two_schedulers_take_turns(cluster, run):
    first = run("--secure-port", 0, leader_elect="true")
    first.wait_until_it_says("became leader")
    second = run("--secure-port", 0, leader_elect="true")
    second.wait_until_it_says("the leader is")
    cluster.create(POD, pod("one"))
    eventually(lambda: is_bound(cluster, "one"))
    assert "became leader" not in second.said()
    assert first.end() == 0
    second.wait_until_it_says("became leader")
    cluster.create(POD, pod("two"))
    eventually(lambda: is_bound(cluster, "two"))
    assert second.end() == 0


def test_a_lost_lease_is_exit_code_1(cluster, run):
    scheduler = run(
        "--secure-port", 0, leader_elect="true, leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 200ms"
    )  # fmt: skip
    scheduler.wait_until_it_says("became leader")
    spec = {"spec": {"holderIdentity": "somebody-else"}}
    cluster.patch(RESOURCES["Lease"], "kube-system", "kube-scheduler", spec)
    assert scheduler.wait() == 1
    assert "leadership of the lease kube-system/kube-scheduler is lost" in scheduler.said()
    assert "taken over by somebody-else" in scheduler.said()
    assert "Traceback" not in scheduler.said()


def test_a_server_that_is_not_there_is_told_and_waited_for(run, tmp_path):
    kubeconfig = tmp_path / "nowhere"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
        'clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]\nusers: [{name: u, user: {}}]\n'
    )
    port = free_port()
    scheduler = run("--secure-port", port, kubeconfig=kubeconfig)
    scheduler.wait_until_it_says("is the API server up")
    scheduler.wait_until_it_says("serving health and metrics at")
    assert "127.0.0.1:1" in scheduler.said()
    assert get(port, "/livez") == "ok"
    with pytest.raises(urllib.error.HTTPError) as refused:
        get(port, "/readyz")
    refused.value.close()
    assert refused.value.code == 500
    assert scheduler.end() == 0
    assert "Traceback" not in scheduler.said()


def test_a_pod_that_the_scheduler_does_not_know_is_explained_from_the_record(cluster, run, tmp_path):
    scheduler = run("--secure-port", 0)
    cluster.create(POD, pod("web"))
    eventually(lambda: is_bound(cluster, "web"))
    scheduler.end()
    options = ("--server", "http://127.0.0.1:1", "--kubeconfig", tmp_path / "cluster" / "kubeconfig")
    explain = Process(tmp_path / "explain.log", "explain", "web", *options)
    assert explain.wait() == 0
    assert "default/web is on node node-" in explain.said()
    assert "Scheduled (x1): Successfully assigned default/web to node-" in explain.said()


def test_a_port_that_is_taken_is_exit_code_1(cluster, run):
    port = free_port()
    first = run("--secure-port", port)
    first.wait_until_it_says("caches are synced")
    second = run("--secure-port", port)
    assert second.wait() == 1
    assert f"cannot serve health and metrics on 0.0.0.0:{port}" in second.said()
    assert "Traceback" not in second.said()
