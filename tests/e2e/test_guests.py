"""The guests at home: `berth up` with kubectl, definitions and objects applied, who goes where, and what is told of it.

Their distribution is not installed: its metadata, made of their pyproject.toml, lies on the path beside its sources,
so that plugins and controllers are found by their entry points. Expectations follow from upstream's documentation of
the plugins; statuses are what upstream's controllers write.
"""

import http.server
import json
import os
import re
import subprocess
import threading
import tomllib

import pytest

from tests.e2e.kubectl import Kubectl, eventually
from tests.e2e.processes import BERTH, Process
from tests.paths import GUESTS, ROOT, SOURCES
from tests.waiting import WAIT_S

pytestmark = pytest.mark.long

NODES = ("node-0", "node-1")
LOADS = {"node-0": 90, "node-1": 20}


def profile(scheduler, plugin="", args=None):
    """A profile with a plugin beside Coscheduling and the default ones; the queue has to sort alike in all profiles."""
    return {
        "schedulerName": scheduler,
        "plugins": {
            "multiPoint": {"enabled": [{"name": name} for name in ("Coscheduling", plugin) if name]},
            "queueSort": {"disabled": [{"name": "PrioritySort"}]},
        },
        "pluginConfig": [{"name": plugin, "args": args}] if args else [],
    }


@pytest.fixture(scope="module")
def load_watcher():
    """The address of a load watcher, which has measured one node at 90 % and the other at 20 %."""
    metrics = {name: {"metrics": [{"type": "CPU", "operator": "AVG", "value": load}]} for name, load in LOADS.items()}
    body = json.dumps({"window": {"start": 0, "end": 60}, "data": {"NodeMetricsMap": metrics}}).encode()

    class Answering(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def guests(tmp_path_factory):
    """The environment of processes for which the guests' distribution is installed."""
    site = tmp_path_factory.mktemp("site")
    info = site / "berth_scheduler_plugins-0.1.0.dist-info"
    info.mkdir()
    project = tomllib.loads((ROOT / "packages/plugins/pyproject.toml").read_text())["project"]
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    offered = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(offered))
    path = os.pathsep.join(map(str, (*SOURCES, GUESTS / "src", site)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", path)
        yield


@pytest.fixture(scope="module")
def up(tmp_path_factory, guests, load_watcher):
    """A `berth up` of two nodes, to which the definitions are applied while it runs."""
    directory = tmp_path_factory.mktemp("up")
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            profile("default-scheduler"),
            profile("quotas", "CapacityScheduling"),
            profile("zones", "NodeResourceTopologyMatch", {"scoringStrategy": {"type": "LeastAllocated"}}),
            profile("loads", "TargetLoadPacking", {"watcherAddress": load_watcher, "targetUtilization": 50}),
        ],
    }
    (directory / "config.yaml").write_text(json.dumps(config))
    process = Process(
        directory / "log", "up", "--dir", directory / "cluster", "--nodes", "2", "--config", directory / "config.yaml"
    )
    try:
        process.wait_until_it_says("Ctrl-C")
        kubectl = Kubectl(directory / "cluster/kubeconfig", directory / "cache")
        kubectl("apply", "-f", "-", text=definitions())
        kubectl("wait", "--for", "condition=established", "crd", "--all")
        yield kubectl
    finally:
        code = process.end()
    assert (code, "Traceback" in process.said()) == (0, False), process.said()


def definitions():
    """What `berth-plugins crds` prints."""
    program = "from berth_plugins.cli import main; main()"
    python = BERTH.with_name("python")
    return subprocess.run([python, "-c", program, "crds"], check=True, capture_output=True, text=True).stdout


def explained(kubectl, pod, namespace="default"):
    """What `berth explain` says, as one line."""
    done = subprocess.run(
        [BERTH, "explain", pod, "-n", namespace, "--kubeconfig", kubectl.kubeconfig],
        capture_output=True, text=True, timeout=WAIT_S, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return " ".join(done.stdout.split())


def pod(name, scheduler, cpu, *, labels=None, limits=False):
    amounts = {"cpu": cpu, "memory": "1Gi"}
    resources = {"requests": amounts, **({"limits": amounts} if limits else {})}
    container = {"name": "c", "image": "nginx", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"schedulerName": scheduler, "containers": [container]},
    }


def put(kubectl, *objects):
    kubectl("apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))


def test_a_gang_waits_for_its_last_member_and_its_group_says_so(up):
    kubectl = up
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "train"},
        "spec": {"minMember": 3},
    }
    members = [
        pod(f"train-{number}", "default-scheduler", "1", labels={"scheduling.x-k8s.io/pod-group": "train"})
        for number in range(3)
    ]
    put(kubectl, group, *members[:2])
    eventually(lambda: kubectl.value("pg", "train", path=".status.phase"), "Pending")
    eventually(lambda: "PodScheduled" in kubectl.value("pod", "train-1", path=".status.conditions[*].type"), True)
    assert "current pods number: 2, minMember of group: 3" in explained(kubectl, "train-1")
    put(kubectl, members[2])
    eventually(lambda: kubectl.value("pg", "train", path=".status.phase"), "Running")
    eventually(lambda: kubectl.rows("pg", "train")[0]["RUNNING"], "3")
    kubectl("delete", "pod", "--all", "--wait=true")
    eventually(lambda: kubectl.value("pg", "train", path=".status.phase"), "Pending")


def test_a_quota_turns_away_what_exceeds_it_and_says_what_is_used(up):
    kubectl = up.in_namespace("shop")
    up("create", "namespace", "shop")
    quota = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "shop"},
        "spec": {"min": {"cpu": "2", "memory": "8Gi"}, "max": {"cpu": "3", "memory": "8Gi"}},
    }
    put(kubectl, quota, pod("web", "quotas", "2"))
    eventually(lambda: json.loads(kubectl.value("eq", "shop", path=".status.used") or "{}").get("cpu"), "2")
    put(kubectl, pod("more", "quotas", "2"))
    eventually(lambda: "more than Max" in kubectl.value("pod", "more", path=".status.conditions[*].message"), True)
    assert "max.cpu of ElasticQuota shop/shop: 3; used: 2; asked for: 2" in explained(up, "more", "shop")
    kubectl("patch", "eq", "shop", "--type=merge", "-p", '{"spec": {"min": {"cpu": "4"}, "max": {"cpu": "4"}}}')
    eventually(lambda: json.loads(kubectl.value("eq", "shop", path=".status.used")).get("cpu"), "4")


def test_a_pod_goes_where_a_zone_has_room_for_it(up):
    kubectl = up
    put(kubectl, *(topology(node, free) for node, free in zip(NODES, ("2", "4"), strict=True)))
    put(kubectl, pod("wide", "zones", "3", limits=True))
    eventually(lambda: kubectl.value("pod", "wide", path=".spec.nodeName"), "node-1")
    put(kubectl, pod("wider", "zones", "5", limits=True))
    eventually(lambda: "align" in kubectl.value("pod", "wider", path=".status.conditions[*].message"), True)
    told = explained(kubectl, "wider")
    assert "a container needs 5 CPU in one NUMA zone; node-1, the nearest of 2 nodes rejected for it" in told
    assert "has 4 CPU free in node-0; 4 CPU free in node-1" in told


def topology(node, free):
    """Two zones of four CPUs each, of which so many are free."""
    amounts = {"capacity": "4", "allocatable": "4", "available": free}
    memory = {"name": "memory", "capacity": "16Gi", "allocatable": "16Gi", "available": "16Gi"}
    zones = [
        {"name": f"node-{zone}", "type": "Node", "resources": [{"name": "cpu", **amounts}, memory]} for zone in (0, 1)
    ]
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": node},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": "single-numa-node"},
            {"name": "topologyManagerScope", "value": "container"},
        ],
        "zones": zones,
    }


def test_a_pod_goes_where_the_measured_load_leaves_room(up):
    """Of 8 CPUs 20 % are used, and 0.5 times 1.5 are predicted; upstream's formula makes 79 of that, and 1 of 90 %."""
    kubectl = up
    kubectl("delete", "pod", "--all", "--all-namespaces", "--wait=true")
    put(kubectl, pod("busy", "loads", "500m"))
    eventually(lambda: kubectl.value("pod", "busy", path=".spec.nodeName"), "node-1")
    told = explained(kubectl, "busy")
    assert re.search(r"busy goes to node-1: .*Packing node-1( \d+)* 79 node-0( \d+)* 1 ", told), told


def test_the_controller_writes_against_any_cluster(guests, api_server, tmp_path):
    """An API server without controllers, and `berth-plugins controller` as a process, which ends when it is told to."""
    kubectl = Kubectl(api_server, tmp_path / "cache")
    kubectl("apply", "-f", "-", text=definitions())
    kubectl("wait", "--for", "condition=established", "crd", "--all")
    command = [BERTH.with_name("python"), "-c", "from berth_plugins.cli import main; main()", "controller", "-v"]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen([*command, "--kubeconfig", str(api_server)], stdout=log, stderr=log)
        try:
            quota = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota"}
            put(kubectl, {**quota, "metadata": {"name": "late"}, "spec": {"min": {"cpu": "2"}}})
            eventually(lambda: kubectl.value("eq", "late", path=".status.used"), '{"cpu":"0"}')
        finally:
            process.terminate()
            code = process.wait(WAIT_S)
    assert (code, "Traceback" in (tmp_path / "log").read_text()) == (0, False), (tmp_path / "log").read_text()
